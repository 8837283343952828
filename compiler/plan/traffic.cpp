// Counts the bytes that each phase of a plan moves. Knows the plan.
#include "compiler/plan/traffic.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <stepfuse/error.hpp>

namespace stepfuse {
namespace {

using Key = std::pair<bool, int32_t>;  // whether it is scratch, and the index: buffers sort first

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

double total(const std::vector<ArrayTraffic>& arrays) {
  double sum = 0;
  for (const ArrayTraffic& a : arrays) sum += a.total();
  return sum;
}

std::vector<ArrayTraffic> count(const KernelPlan& plan, const plan::Bodies& bodies,
                                size_t signature) {
  std::vector<ArrayTraffic> out;
  for (const plan::Body& body : bodies) {
    auto at = std::find(body.signatures.begin(), body.signatures.end(), signature);
    if (at == body.signatures.end()) continue;
    for (const plan::ArrayUse& use : body.arrays) {
      const plan::Array& a = plan.array(use);
      bool is_streamed = a.owner == plan::Array::Owner::caller || a.scratch();
      if (!is_streamed) continue;  // it stays in the caches
      double bytes = static_cast<double>(size_of(use.dtype)) / a.at.columns / a.at.rows;
      out.push_back({.buffer = a.scratch() ? -1 : a.index,
                     .scratch = a.scratch() ? a.index : -1,
                     .read = use.loaded ? bytes : 0,
                     .written = use.stored ? bytes : 0});
    }
  }
  return out;
}

// Adds what arranging values reads and writes. Only the zeros at the ends of swizzled arrays are left out.
std::vector<ArrayTraffic> with_arranged(const std::vector<ArrayTraffic>& arrays,
                                        const KernelPlan& plan) {
  std::map<Key, ArrayTraffic> sums;
  for (const ArrayTraffic& a : arrays) add_up(sums, a);
  for (const plan::Arrangement& a : plan.arrangements) {
    double bytes = static_cast<double>(size_of(a.dtype)) / a.at.columns;
    double read = bytes / a.at.rows;
    // A transposed scale of a block is repeated for each column that shares it, and read once.
    bool repeats = a.order.transposed && a.at.rows == 1 && a.bits_of_elements() == 0;
    add_up(sums, {.buffer = a.from, .read = repeats ? read / a.at.columns : read});
    add_up(sums, {.buffer = a.to, .written = read});
  }
  return values_of(sums);
}

}  // namespace

double PhaseTraffic::bytes() const { return total(arrays); }
double PhaseTraffic::skipped_bytes() const { return total(skipped); }
bool PhaseTraffic::writes() const {
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const ArrayTraffic& a) { return a.written > 0; });
}

double Traffic::bytes() const {
  double sum = 0;
  for (const PhaseTraffic& p : phases) sum += p.bytes();
  return sum;
}

double Traffic::skipped_bytes() const {
  double sum = 0;
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

std::vector<ArrayTraffic> Traffic::floor() const {
  std::map<Key, ArrayTraffic> once;
  for (const PhaseTraffic& p : phases) {
    for (const ArrayTraffic& a : p.arrays) {
      if (a.buffer < 0) continue;  // a different schedule may need no scratch
      ArrayTraffic& own = once[{false, a.buffer}];
      own.buffer = a.buffer;
      own.read = std::max(own.read, a.read);
      own.written = std::max(own.written, a.written);
    }
  }
  return values_of(once);
}

Traffic traffic_of(const KernelPlan& plan, size_t signature) {
  check_internal(signature < plan.signatures.size(), "no such signature");
  Traffic traffic;
  for (const plan::Phase& phase : plan.phases) {
    PhaseTraffic p;
    p.arrays = count(plan, phase.bodies, signature);
    p.skipped =
        phase.guards == plan::Guard::none ? p.arrays : count(plan, phase.otherwise, signature);
    if (&phase == &plan.phases.back() && !plan.arrangements.empty()) {
      p.arrays = with_arranged(p.arrays, plan);
      p.skipped = with_arranged(p.skipped, plan);
    }
    traffic.phases.push_back(std::move(p));
  }
  return traffic;
}

int barrier_count(const KernelPlan& plan) {
  int barriers = 0;
  for (const plan::Kernel& k : plan.kernels) {
    if (plan::blocks_wait(plan, k)) barriers += k.phase_count - 1 + plan::shared_pieces(plan, k);
  }
  return barriers;
}

int launch_count(const KernelPlan& plan) {
  int launches = 0;
  for (const plan::Kernel& k : plan.kernels) launches += 1 + plan::launches_behind(plan, k);
  return launches;
}

}  // namespace stepfuse
