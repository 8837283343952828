// Sorts the tables into the lists for folds. Knows the kernel ABI and granularities.
#include "runtime/tables/partitions.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace stepfuse {
namespace {

// Within a part, the members keep their order.
Partition by_owner(const std::vector<uint32_t>& owner, uint32_t parts) {
  Partition p;
  p.begin.assign(parts + 1, 0);
  for (uint32_t o : owner) ++p.begin[o + 1];
  std::partial_sum(p.begin.begin(), p.begin.end(), p.begin.begin());
  if (std::is_sorted(owner.begin(), owner.end())) return p;
  std::vector<uint32_t> next(p.begin.begin(), p.begin.end() - 1);
  p.members.resize(owner.size());
  for (uint32_t m = 0; m < owner.size(); ++m) p.members[next[owner[m]]++] = m;
  return p;
}

constexpr uint32_t index(Granularity from, Granularity to) {
  return abi::partition_index(number_of(from), number_of(to));
}

// Returns the next coarser granularity, whose members consist of members of `g`. Chunks belong to rows if
// there are rows.
constexpr Granularity coarser(Granularity g, Granularity chunk_owner) {
  if (is_tile(g)) return chunk_owner;
  if (splits_tensor(g)) return per::tensor;
  return g == per::tensor ? per::group : per::step;
}

}  // namespace

abi::Partition Partition::view() const {
  return {members.empty() ? nullptr : members.data(), begin.data(), count(), 0};
}

Partitions::Partitions(std::span<const abi::Chunk> chunks, std::span<const abi::Tensor> tensors,
                       uint32_t group_count, std::span<const Granularity> lines) {
  constexpr size_t kCount = std::size(kGranularities);
  static_assert(abi::partition_index(kCount, 0) == abi::kPartitions);
  static_assert(abi::kRowsOfTensors == index(per::row, per::tensor));
  static_assert(abi::kColumnsOfTensors == index(per::column, per::tensor));
  bool has_rows = std::find(lines.begin(), lines.end(), per::row) != lines.end();
  Granularity chunk_owner = has_rows ? per::row : per::tensor;
  // up[number]: for each member of a granularity, the member of the next coarser one that contains it.
  std::array<std::vector<uint32_t>, kCount> up;
  auto of = [&](Granularity g) -> std::vector<uint32_t>& { return up[number_of(g)]; };
  of(per::step) = {0};
  of(per::group).assign(group_count, 0);
  std::vector<uint32_t> first_row;
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    of(per::tensor).push_back(tensors[t].group);
    first_row.push_back(static_cast<uint32_t>(of(per::row).size()));
    for (Granularity g : lines) {
      of(g).resize(of(g).size() + tile_count(g, shape_of(tensors[t].size, tensors[t].columns)), t);
    }
  }
  of(per::element).resize(chunks.size());
  for (const abi::Chunk& c : chunks) {
    uint32_t& owner = of(per::element)[c.slot] = c.tensor;
    if (has_rows) {
      owner = first_row[c.tensor] + static_cast<uint32_t>(c.begin / tensors[c.tensor].columns);
    }
  }
  for (uint32_t from = 1; from < kCount; ++from) {
    std::vector<uint32_t> owner(up[from].size());
    std::iota(owner.begin(), owner.end(), 0);
    Granularity at = kGranularities[from].at;  // `owner` holds members of this granularity
    for (uint32_t to = from; to-- > 0;) {
      Granularity target = kGranularities[to].at;
      bool owns = target == coarser(at, chunk_owner);
      if (owns) {
        for (uint32_t& o : owner) o = of(at)[o];
        at = target;
      }
      auto count = static_cast<uint32_t>(up[to].size());
      all_[abi::partition_index(from, to)] = owns ? by_owner(owner, count) : by_owner({}, 0);
    }
  }
}

const Partition& Partitions::of(Granularity from, Granularity to) const {
  return all_[index(from, to)];
}

void Partitions::describe(abi::Context* context) const {
  for (size_t i = 0; i < all_.size(); ++i) context->parts[i] = all_[i].view();
}

}  // namespace stepfuse
