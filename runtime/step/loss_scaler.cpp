// States that several steps share. Knows the public API and fmt.
#include "runtime/step/loss_scaler.hpp"

#include <cmath>

#include <fmt/format.h>

#include "ir/recipes/loss_scale.hpp"
#include "runtime/process/fork_watch.hpp"
#include "runtime/step/numbers.hpp"

namespace stepfuse {
namespace {

float to_scale(double value) {
  float scale = to_bits(value, DType::f32, "scale").f32();
  if (scale > 0 && std::isfinite(scale)) return scale;
  throw Error(ErrorKind::usage,
              fmt::format("a loss scale is positive and finite in f32; it cannot be {}", value));
}

}  // namespace

LossScaler::Shared::~Shared() {
  if (block_ != nullptr) memory_->release(block_, kBytes, {});
}

void* LossScaler::Shared::attach(const State& state, const std::shared_ptr<DeviceMemory>& memory) {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  if (block_ == nullptr) {
    memory_ = memory;
    block_ = static_cast<char*>(memory_->allocate(kBytes, {}));
  } else if (memory_->device_name() != memory->device_name()) {
    throw Error(ErrorKind::bind, "a LossScaler serves steps of one device; make one per device");
  }
  auto it = entries_.find(state.name);
  if (it == entries_.end()) {
    if ((entries_.size() + 1) * kStride > kBytes) {
      throw Error(ErrorKind::bind, "a LossScaler holds at most 32 shared states");
    }
    it = entries_.emplace(state.name, Entry{state.type.dtype, entries_.size() * kStride}).first;
    Bits initial = state.name == "scale" && state.type.dtype == DType::f32 ? Bits::of(init_scale_)
                                                                           : state.initial;
    memory_->copy_to_device(block_ + it->second.offset, &initial.raw, size_of(state.type.dtype),
                            {});
  }
  if (it->second.dtype != state.type.dtype) {
    throw Error(ErrorKind::bind,
                fmt::format("shared state @{} is {} here and {} in a different step of the scaler",
                            state.name, name(state.type.dtype), name(it->second.dtype)));
  }
  return block_ + it->second.offset;
}

void LossScaler::Shared::serve(std::shared_ptr<PendingWork> step) {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  std::erase_if(steps_, [&](const auto& s) { return s.expired() || s.lock() == step; });
  if (step != nullptr) steps_.push_back(step);
}

void LossScaler::Shared::wait() const {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  wait_locked();
}

void LossScaler::Shared::wait_locked() const {
  for (const auto& step : steps_) {
    if (auto work = step.lock()) work->wait();
  }
}

const LossScaler::Shared::Entry& LossScaler::Shared::find(std::string_view wanted) const {
  auto it = entries_.find(wanted);
  if (it != entries_.end()) return it->second;
  throw Error(ErrorKind::usage,
              fmt::format("no step with a shared state '{}' is bound to this scaler yet",
                          wanted.substr(0, 80)));
}

const float* LossScaler::Shared::device_scale() const {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  return reinterpret_cast<const float*>(block_ + find("scale").offset);
}

Bits LossScaler::Shared::load(const Entry& e) const {
  wait_locked();
  Bits bits;
  memory_->copy_to_host(&bits.raw, block_ + e.offset, size_of(e.dtype), {});
  return bits;
}

void LossScaler::Shared::store(const Entry& e, Bits value) {
  wait_locked();
  memory_->copy_to_device(block_ + e.offset, &value.raw, size_of(e.dtype), {});
}

double LossScaler::Shared::read(std::string_view wanted) const {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  if (block_ == nullptr && wanted == "scale") return init_scale_;
  const Entry& e = find(wanted);
  return to_double(load(e), e.dtype);
}

// Throws inside an accumulation window: a sum of gradients with two scales cannot be unscaled by one
// factor.
void LossScaler::Shared::check_no_window() const {
  auto it = entries_.find("micro_batches");
  if (it == entries_.end()) return;
  Bits count = load(it->second);
  if (count.i32() == 0) return;
  throw Error(ErrorKind::usage,
              fmt::format("the loss scale cannot change inside an accumulation window ({} "
                          "micro-batches are in it): change it after the step",
                          count.i32()));
}

void LossScaler::Shared::set_scale(double value) {
  float scale = to_scale(value);
  if (block_ == nullptr) {
    init_scale_ = scale;
    return;
  }
  check_no_window();
  store(find("scale"), Bits::of(scale));
}

void LossScaler::Shared::forget_change(std::string_view tracker) {
  auto it = entries_.find(recipes::change_of(tracker));
  if (it != entries_.end()) store(it->second, Bits::of(int32_t{0}));
}

void LossScaler::Shared::forget_changes() {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  for (std::string_view tracker : recipes::kTrackers) forget_change(tracker);
}

void LossScaler::Shared::write(std::string_view wanted, double value) {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  if (wanted == "scale") return set_scale(value);
  const Entry& e = find(wanted);
  store(e, to_bits(value, e.dtype, wanted));
  forget_change(wanted);
  entries_.find(wanted)->second.is_written = true;
}

void LossScaler::Shared::update(double new_scale) {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  set_scale(new_scale);
  for (std::string_view tracker : recipes::kTrackers) {
    auto now = entries_.find(tracker), change = entries_.find(recipes::change_of(tracker));
    if (now == entries_.end() || change == entries_.end()) continue;
    store(now->second, Bits::of(load(now->second).i32() - load(change->second).i32()));
    forget_change(tracker);
  }
}

bool LossScaler::Shared::has(std::string_view name) const {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  return entries_.contains(name);
}

bool LossScaler::Shared::counts_micro_batches() const {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  auto it = entries_.find("micro_batches");
  return !opener_.expired() || (it != entries_.end() && it->second.is_written);
}

std::shared_ptr<const void> LossScaler::Shared::open_windows() {
  ForkWatch watch;
  std::lock_guard lock(mutex_);
  std::shared_ptr<const void> token = opener_.lock();
  if (token == nullptr) opener_ = token = std::make_shared<const char>();
  return token;
}

LossScaler::LossScaler(const Options& options)
    : options_(options), shared_(std::make_shared<Shared>(options, to_scale(options.init_scale))) {
  bool ok = options.growth_factor > 1 && std::isfinite(options.growth_factor) &&
            options.backoff_factor > 0 && options.backoff_factor < 1 && options.growth_interval > 0;
  if (!ok) {
    throw Error(ErrorKind::usage,
                "a LossScaler needs init_scale > 0, growth_factor > 1, "
                "0 < backoff_factor < 1 and growth_interval > 0, all of them finite");
  }
}
LossScaler::~LossScaler() = default;
const float* LossScaler::device_scale() const { return shared_->device_scale(); }
double LossScaler::read(std::string_view state) const { return shared_->read(state); }
void LossScaler::write(std::string_view state, double value) { shared_->write(state, value); }
void LossScaler::update(double new_scale) { shared_->update(new_scale); }

}  // namespace stepfuse
