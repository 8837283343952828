// The lists that folds go by, sorted from the tables. Knows the kernel ABI and the domains.
#include "runtime/partitions.hpp"

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

}  // namespace

abi::Partition Partition::view() const {
  return {members.empty() ? nullptr : members.data(), begin.data(), count(), 0};
}

Partitions::Partitions(std::span<const abi::Chunk> chunks, std::span<const abi::Tensor> tensors,
                       uint32_t group_count, bool has_rows) {
  constexpr size_t kDomainCount = std::size(kDomains);
  constexpr auto kRow = static_cast<uint32_t>(Domain::row);
  static_assert(abi::partition_index(kDomainCount, 0) == abi::kPartitions);
  // [domain] its members, and of each the number of the member one domain up that it belongs to.
  std::array<std::vector<uint32_t>, kDomainCount> up;
  up[static_cast<size_t>(Domain::step)] = {0};
  up[static_cast<size_t>(Domain::group)].assign(group_count, 0);
  for (const abi::Tensor& t : tensors) {
    up[static_cast<size_t>(Domain::tensor)].push_back(t.group);
  }
  std::vector<uint32_t> first_row;
  for (uint32_t t = 0; t < tensors.size() && has_rows; ++t) {
    std::vector<uint32_t>& rows = up[kRow];
    first_row.push_back(static_cast<uint32_t>(rows.size()));
    rows.resize(rows.size() + row_count(tensors[t]), t);
  }
  for (const abi::Chunk& c : chunks) {
    uint32_t owner = c.tensor;
    if (has_rows)
      owner = first_row[c.tensor] + static_cast<uint32_t>(c.begin / tensors[c.tensor].columns);
    up[static_cast<size_t>(Domain::element)].push_back(owner);
  }
  for (uint32_t from = 1; from < kDomainCount; ++from) {
    std::vector<uint32_t> owner(up[from].size());
    std::iota(owner.begin(), owner.end(), 0);
    for (uint32_t to = from; to-- > 0;) {
      // Where there are no rows, elements are the tensors' own.
      if (has_rows || to + 1 != kRow) {
        for (uint32_t& o : owner) o = up[to + 1][o];
      }
      if (!has_rows && (from == kRow || to == kRow)) {
        all_[abi::partition_index(from, to)] = by_owner({}, 0);
        continue;
      }
      all_[abi::partition_index(from, to)] = by_owner(owner, static_cast<uint32_t>(up[to].size()));
    }
  }
}

const Partition& Partitions::of(Domain from, Domain to) const {
  return all_[abi::partition_index(static_cast<uint32_t>(from), static_cast<uint32_t>(to))];
}

void Partitions::describe(abi::Context* context) const {
  for (size_t i = 0; i < all_.size(); ++i) context->parts[i] = all_[i].view();
}

}  // namespace stepfuse
