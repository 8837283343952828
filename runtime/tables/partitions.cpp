// The lists that folds go by, sorted from the tables. Knows the kernel ABI and the domains.
#include "runtime/tables/partitions.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace stepfuse {
namespace {

// Members stay in their order within a part.
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

uint32_t row_count(const abi::Tensor& t) {
  return t.size == 0 ? 0 : static_cast<uint32_t>((t.size + t.columns - 1) / t.columns);
}

constexpr uint32_t index(Domain from, Domain to) {
  return abi::partition_index(static_cast<uint32_t>(from), static_cast<uint32_t>(to));
}
constexpr Domain before(Domain d) { return static_cast<Domain>(static_cast<int>(d) - 1); }
constexpr Domain next(Domain d) { return static_cast<Domain>(static_cast<int>(d) + 1); }

// Whose members a domain's are parts of. No column is of a row, and elements of a column are folded
// by strips.
constexpr Domain coarser(Domain d, bool has_rows) {
  if (d == Domain::element) return has_rows ? Domain::row : Domain::tensor;
  return d == Domain::column ? Domain::tensor : before(d);
}

}  // namespace

abi::Partition Partition::view() const {
  return {members.empty() ? nullptr : members.data(), begin.data(), count(), 0};
}

Partitions::Partitions(std::span<const abi::Chunk> chunks, std::span<const abi::Tensor> tensors,
                       uint32_t group_count, Has has) {
  constexpr size_t kDomainCount = std::size(kDomains);
  static_assert(abi::partition_index(kDomainCount, 0) == abi::kPartitions);
  static_assert(abi::kRowsOfTensors == index(Domain::row, Domain::tensor));
  static_assert(abi::kColumnsOfTensors == index(Domain::column, Domain::tensor));
  // [domain] its members, and of each the number of the member of the next coarser domain that it
  // belongs to.
  std::array<std::vector<uint32_t>, kDomainCount> up;
  auto of = [&](Domain d) -> std::vector<uint32_t>& { return up[static_cast<size_t>(d)]; };
  of(Domain::step) = {0};
  of(Domain::group).assign(group_count, 0);
  std::vector<uint32_t> first_row;
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    of(Domain::tensor).push_back(tensors[t].group);
    auto add = [&](Domain d, uint64_t n) { of(d).resize(of(d).size() + n, t); };
    first_row.push_back(static_cast<uint32_t>(of(Domain::row).size()));
    if (has.rows) add(Domain::row, row_count(tensors[t]));
    if (has.columns) add(Domain::column, tensors[t].size == 0 ? 0 : tensors[t].columns);
  }
  of(Domain::element).resize(chunks.size());
  for (const abi::Chunk& c : chunks) {
    uint32_t& owner = of(Domain::element)[c.slot] = c.tensor;
    if (has.rows) {
      owner = first_row[c.tensor] + static_cast<uint32_t>(c.begin / tensors[c.tensor].columns);
    }
  }
  for (auto from = Domain::group; from <= Domain::element; from = next(from)) {
    std::vector<uint32_t> owner(of(from).size());
    std::iota(owner.begin(), owner.end(), 0);
    Domain at = from;  // whose members `owner` says
    for (Domain to = before(from);; to = before(to)) {
      bool owns = to == coarser(at, has.rows);
      if (owns) {
        for (uint32_t& o : owner) o = of(at)[o];
        at = to;
      }
      auto count = static_cast<uint32_t>(of(to).size());
      all_[index(from, to)] = owns ? by_owner(owner, count) : by_owner({}, 0);
      if (to == Domain::step) break;
    }
  }
}

const Partition& Partitions::of(Domain from, Domain to) const { return all_[index(from, to)]; }

void Partitions::describe(abi::Context* context) const {
  for (size_t i = 0; i < all_.size(); ++i) context->parts[i] = all_[i].view();
}

}  // namespace stepfuse
