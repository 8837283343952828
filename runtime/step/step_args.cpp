// The sources of a step's arguments: values, the step's own block in device memory, or the caller's block.
// Knows the runtime's parts and fmt.
#include <cstring>

#include <fmt/format.h>

#include "runtime/step/internals.hpp"
#include "runtime/step/loss_scaler.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {

Args Step::Impl::make_args() const {
  Args args(shape);
  for (size_t i = 0; i < program.args.size(); ++i) {
    const auto& fallback = program.args[i].fallback;
    if (!fallback) continue;
    for (int m = 0; m < shape->values(i); ++m) {
      args.slot({static_cast<int32_t>(i)}, Internals::member(m)) = fallback->raw;
    }
  }
  if (scaler != nullptr) {
    const LossScaler::Options& o = scaler->options();
    auto set = [&](std::string_view name, double value) {
      int i = program.find_arg(name);
      if (i >= 0) args.set(ArgId{i}, value);
    };
    set("growth_factor", o.growth_factor);
    set("backoff_factor", o.backoff_factor);
    set("growth_interval", o.growth_interval);
  }
  return args;
}

Bits Step::Impl::arg_bits(const Args& args, size_t arg, size_t member) const {
  return {const_cast<Args&>(args).slot({static_cast<int32_t>(arg)},
                                       Internals::member(static_cast<int64_t>(member)))};
}
void Step::Impl::set_arg_bits(Args& args, size_t arg, size_t member, Bits value) const {
  args.slot({static_cast<int32_t>(arg)}, Internals::member(static_cast<int64_t>(member))) =
      value.raw;
}

void Step::Impl::check_shape(const Args& args) const {
  if (args.shape_ == shape) return;
  throw Error(ErrorKind::usage,
              "these Args belong to a different step, or are older than append(): get them from "
              "this step's make_args()");
}

uint64_t* Step::Impl::own_block() const {
  return reinterpret_cast<uint64_t*>(plan->block->base() + plan->workspace.args);
}

ArgSource Step::Impl::by_value(const Args& args) const {
  check_shape(args);
  return {&args, nullptr};
}

ArgSource Step::Impl::resident() const {
  if (!plan->args_set) {
    throw Error(ErrorKind::usage, "run_captured() uses the arguments of set_args(): call it first");
  }
  return {nullptr, own_block()};
}

ArgSource Step::Impl::callers(DeviceArgs args) const {
  bool none = plan->workspace.args_bytes == 0;
  if (!none && args.block == nullptr) {
    throw Error(ErrorKind::usage, "DeviceArgs: the block is null");
  }
  if (reinterpret_cast<uintptr_t>(args.block) % sizeof(uint64_t) != 0) {
    throw Error(ErrorKind::usage, fmt::format("DeviceArgs: the block at {} is not aligned to its "
                                              "8-byte words",
                                              args.block));
  }
  if (std::string problem = none ? "" : backend->memory()->problem_with(args.block);
      !problem.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("DeviceArgs: the block at {} is {}; this step runs on {}", args.block,
                            problem, backend->memory()->device_name()));
  }
  return {nullptr, none ? own_block() : static_cast<const uint64_t*>(args.block)};
}

void Step::Impl::set_args(const Args& args, Stream stream) {
  Busy busy(*this);
  ArgSource source = by_value(args);
  check_ready();
  backend->set_args(inputs(source, stream), own_block());
  plan->args_set = true;
}

void* Step::Impl::device_arg(ArgId arg, Member member) const {
  return reinterpret_cast<char*>(own_block()) + arg_offset(arg, member);
}

size_t Step::Impl::arg_offset(ArgId arg, Member member) const {
  // As in Args, an argument per step has one value for all groups.
  Args any(shape);
  return static_cast<size_t>(&any.slot(arg, member) - any.words_.data()) * sizeof(uint64_t);
}

void Step::Impl::write_args(const Args& args, std::span<uint64_t> words) const {
  check_shape(args);
  if (words.size() != args.words_.size()) {
    throw Error(ErrorKind::usage, fmt::format("the arguments of step @{} take {} words; {} were "
                                              "given",
                                              program.name, args.words_.size(), words.size()));
  }
  std::copy(args.words_.begin(), args.words_.end(), words.begin());
}

// Returns the arguments; waits for the device if they are in its memory.
Args Step::Impl::fetch_args(const ArgSource& source, Stream stream) const {
  if (source.values != nullptr) return *source.values;
  Args args(shape);
  backend->memory()->copy_to_host(args.words_.data(), source.block, plan->workspace.args_bytes,
                                  stream);
  return args;
}

}  // namespace stepfuse
