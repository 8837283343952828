// Counts the bytes that each phase of a schedule moves. Knows ir and the schedule.
#include "compiler/plan/traffic.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stepfuse {
namespace {

using Key = std::pair<bool, int32_t>;  // scratch or not, index: buffers sort first

void add_up(std::map<Key, ArrayTraffic>& sums, const ArrayTraffic& a) {
  ArrayTraffic& sum = sums[a.buffer >= 0 ? Key{false, a.buffer} : Key{true, a.scratch}];
  sum.buffer = a.buffer;
  sum.scratch = a.scratch;
  sum.read += a.read;
  sum.written += a.written;
}

std::vector<ArrayTraffic> values_of(const std::map<Key, ArrayTraffic>& sums) {
  std::vector<ArrayTraffic> out;
  for (const auto& [key, traffic] : sums) out.push_back(traffic);
  return out;
}

uint32_t total(const std::vector<ArrayTraffic>& arrays) {
  uint32_t sum = 0;
  for (const ArrayTraffic& a : arrays) sum += a.total();
  return sum;
}

class BodyCounter {
 public:
  BodyCounter(const Schedule& schedule, size_t signature) : s_(schedule), signature_(signature) {}

  std::vector<ArrayTraffic> count(const Body& body) {
    sums_.clear();
    for (const Kept& k : body.fetches) add(k, true);
    for (ValueId v : body.code) {
      const Inst& inst = s_.program[v];
      if (inst.op == Op::load)
        add_up(sums_, {.buffer = inst.slot, .read = buffer_bytes(inst.slot)});
    }
    for (const StoreAction& a : body.stores) {
      int32_t slot = s_.program[a.store].slot;
      add_up(sums_, {.buffer = slot, .written = buffer_bytes(slot)});
    }
    for (const Kept& k : body.keeps) add(k, false);
    return values_of(sums_);
  }

 private:
  uint32_t buffer_bytes(int32_t buffer) const {
    return static_cast<uint32_t>(size_of(s_.signatures[signature_][static_cast<size_t>(buffer)]));
  }
  void add(const Kept& kept, bool reads) {
    ArrayTraffic a{.buffer = kept.buffer, .scratch = kept.scratch};
    auto bytes = kept.buffer >= 0
                     ? buffer_bytes(kept.buffer)
                     : static_cast<uint32_t>(size_of(s_.dtype_of(kept.value, signature_)));
    (reads ? a.read : a.written) = bytes;
    add_up(sums_, a);
  }

  const Schedule& s_;
  size_t signature_;
  std::map<Key, ArrayTraffic> sums_;
};

}  // namespace

uint32_t PhaseTraffic::bytes() const { return total(arrays); }
uint32_t PhaseTraffic::skipped_bytes() const { return total(skipped); }

uint32_t Traffic::bytes() const {
  uint32_t sum = 0;
  for (const PhaseTraffic& p : phases) sum += p.bytes();
  return sum;
}

uint32_t Traffic::skipped_bytes() const {
  uint32_t sum = 0;
  for (const PhaseTraffic& p : phases) sum += p.skipped_bytes();
  return sum;
}

std::vector<ArrayTraffic> Traffic::by_array() const {
  std::map<Key, ArrayTraffic> sums;
  for (const PhaseTraffic& p : phases) {
    for (const ArrayTraffic& a : p.arrays) add_up(sums, a);
  }
  return values_of(sums);
}

Traffic traffic_of(const Schedule& schedule, size_t signature) {
  check_internal(signature < schedule.signatures.size(), "no such signature");
  BodyCounter counter(schedule, signature);
  Traffic traffic;
  for (const Phase& phase : schedule.phases) {
    PhaseTraffic p;
    p.arrays = counter.count(phase.body);
    p.skipped = phase.guard == kNoValue ? p.arrays : counter.count(phase.otherwise);
    traffic.phases.push_back(std::move(p));
  }
  return traffic;
}

int barrier_count(const Schedule& schedule) {
  int barriers = 0;
  for (const Kernel& k : schedule.kernels) barriers += std::max(0, k.phase_count - 1);
  return barriers;
}

}  // namespace stepfuse
