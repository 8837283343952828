// States that several steps share. Knows the public API and fmt.
#include "runtime/loss_scaler.hpp"

#include <fmt/format.h>

#include "runtime/numbers.hpp"

namespace stepfuse {

LossScaler::Shared::~Shared() {
  if (block_ != nullptr) memory_->release(block_, kBytes, nullptr);
}

void* LossScaler::Shared::attach(const State& state, const std::shared_ptr<DeviceMemory>& memory) {
  std::lock_guard lock(mutex_);
  if (block_ == nullptr) {
    memory_ = memory;
    block_ = static_cast<char*>(memory_->allocate(kBytes, nullptr));
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
                            nullptr);
  }
  if (it->second.dtype != state.type.dtype) {
    throw Error(ErrorKind::bind,
                fmt::format("shared state @{} is {} here and {} in another step of the scaler",
                            state.name, name(state.type.dtype), name(it->second.dtype)));
  }
  return block_ + it->second.offset;
}

void LossScaler::Shared::serve(std::shared_ptr<PendingWork> step) {
  std::lock_guard lock(mutex_);
  std::erase_if(steps_, [&](const auto& s) { return s.expired() || s.lock() == step; });
  if (step != nullptr) steps_.push_back(step);
}

void LossScaler::Shared::wait() const {
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
  std::lock_guard lock(mutex_);
  return reinterpret_cast<const float*>(block_ + find("scale").offset);
}

double LossScaler::Shared::read(std::string_view wanted) const {
  std::lock_guard lock(mutex_);
  if (block_ == nullptr && wanted == "scale") return init_scale_;
  const Entry& e = find(wanted);
  wait_locked();
  Bits bits;
  memory_->copy_to_host(&bits.raw, block_ + e.offset, size_of(e.dtype), nullptr);
  return to_double(bits, e.dtype);
}

// Sums of gradients of two scales have no one factor that undoes them.
void LossScaler::Shared::check_no_window() const {
  auto it = entries_.find("micro_batches");
  if (it == entries_.end()) return;
  Bits count;
  memory_->copy_to_host(&count.raw, block_ + it->second.offset, size_of(it->second.dtype), nullptr);
  if (count.i32() == 0) return;
  throw Error(ErrorKind::usage,
              fmt::format("the loss scale cannot change inside an accumulation window ({} "
                          "micro-batches are in it): change it after the step",
                          count.i32()));
}

void LossScaler::Shared::write(std::string_view wanted, double value) {
  std::lock_guard lock(mutex_);
  if (block_ == nullptr && wanted == "scale") {
    init_scale_ = static_cast<float>(value);
    return;
  }
  wait_locked();
  if (wanted == "scale") check_no_window();
  const Entry& e = find(wanted);
  Bits bits = to_bits(value, e.dtype, wanted);
  memory_->copy_to_device(block_ + e.offset, &bits.raw, size_of(e.dtype), nullptr);
}

LossScaler::LossScaler(const Options& options)
    : options_(options), shared_(std::make_unique<Shared>(options.init_scale)) {
  bool ok = options.init_scale > 0 && options.growth_factor > 1 && options.backoff_factor > 0 &&
            options.backoff_factor < 1 && options.growth_interval > 0;
  if (!ok) {
    throw Error(ErrorKind::usage,
                "a LossScaler needs init_scale > 0, growth_factor > 1, "
                "0 < backoff_factor < 1 and growth_interval > 0");
  }
}
LossScaler::~LossScaler() = default;
const float* LossScaler::device_scale() const { return shared_->device_scale(); }
double LossScaler::read(std::string_view state) const { return shared_->read(state); }
void LossScaler::write(std::string_view state, double value) { shared_->write(state, value); }

}  // namespace stepfuse
