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

}  // namespace

abi::Partition Partition::view() const {
  return {members.empty() ? nullptr : members.data(), begin.data(), count(), 0};
}

Partitions::Partitions(std::span<const abi::Chunk> chunks, std::span<const abi::Tensor> tensors,
                       uint32_t group_count) {
  constexpr size_t kDomainCount = std::size(kDomains);
  static_assert(abi::partition_index(kDomainCount, 0) == abi::kPartitions);
  // [domain] its members, and of each the number of the member one domain up that it belongs to.
  std::array<std::vector<uint32_t>, kDomainCount> up;
  up[static_cast<size_t>(Domain::step)] = {0};
  up[static_cast<size_t>(Domain::group)].assign(group_count, 0);
  for (const abi::Tensor& t : tensors) {
    up[static_cast<size_t>(Domain::tensor)].push_back(t.group);
  }
  for (const abi::Chunk& c : chunks) up[static_cast<size_t>(Domain::element)].push_back(c.tensor);
  for (uint32_t from = 1; from < kDomainCount; ++from) {
    std::vector<uint32_t> owner(up[from].size());
    std::iota(owner.begin(), owner.end(), 0);
    for (uint32_t to = from; to-- > 0;) {
      for (uint32_t& o : owner) o = up[to + 1][o];
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
