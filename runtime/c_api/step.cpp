// The C API: steps, their memory, arguments, states and checkpoints. Knows the handles.
#include <fmt/format.h>

#include <stepfuse/checkpoint.hpp>

#include "ir/text/words.hpp"
#include "runtime/c_api/handles.hpp"
#include "runtime/step/internals.hpp"

using namespace stepfuse;
using namespace stepfuse::c_api;

namespace {

static_assert(STEPFUSE_CUDA == static_cast<int>(Device::Kind::cuda));

Device::Kind kind_of(int32_t kind) {
  if (kind >= STEPFUSE_CPU && kind <= STEPFUSE_CUDA) return static_cast<Device::Kind>(kind);
  throw Error(
      ErrorKind::usage,
      fmt::format(
          "{} is not a device kind: use STEPFUSE_CPU, STEPFUSE_INTERPRETER or STEPFUSE_CUDA",
          kind));
}

Device device_of(const stepfuse_device* device) {
  stepfuse_device d = read_struct(device, "the stepfuse_device");
  switch (kind_of(d.kind)) {
    case Device::Kind::cpu:
      return Device::cpu(d.threads, text_or(d.level, "host"));
    case Device::Kind::interpreter:
      return Device::interpreter();
    case Device::Kind::cuda:
      break;
  }
  return Device::cuda(d.ordinal, text_or(d.options, ""));
}

Allocator allocator_of(const stepfuse_step_options& o) {
  if ((o.allocate == nullptr) != (o.release == nullptr)) {
    throw Error(ErrorKind::usage, "allocate and release: set both or neither");
  }
  if (o.allocate == nullptr) return {};
  return {.allocate = [allocate = o.allocate, user = o.user](
                          size_t bytes, Stream s) { return allocate(user, bytes, s.handle); },
          .release = [release = o.release, user = o.user](
                         void* memory, size_t bytes,
                         Stream s) { release(user, memory, bytes, s.handle); }};
}

StepOptions options_of(const stepfuse_step_options* given) {
  StepOptions options;
  if (given == nullptr) return options;
  stepfuse_step_options o = read_struct(given, "the stepfuse_step_options");
  if (o.form < STEPFUSE_FUSED || o.form > STEPFUSE_UNFUSED) {
    throw Error(
        ErrorKind::usage,
        fmt::format("{} is not a form: use STEPFUSE_FUSED, STEPFUSE_SPLIT or STEPFUSE_UNFUSED",
                    o.form));
  }
  options.form = static_cast<Form>(o.form);
  options.observe = o.observe != 0;
  if (o.stats_ring != 0) options.stats_ring = o.stats_ring;
  if (o.scaler != nullptr) options.scaler = &o.scaler->value;
  options.gradient = text_or(o.gradient, "grad");
  options.check_args = o.unchecked_args == 0;
  if (o.struct_size >= offsetof(stepfuse_step_options, check_args) + sizeof o.check_args) {
    options.check_args = options.check_args && o.check_args != 0;
  }
  options.allocator = allocator_of(o);
  return options;
}

std::vector<std::string> names_of(const char* const* names, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) {
    out.emplace_back(text_of((&need(names, "the array of names"))[i], "a name"));
  }
  return out;
}

// Returns the host arguments of a handle.
template <class Handle>
auto& args_of(Handle* args) {
  if (auto* found = std::get_if<Args>(&need(args, "the args").value)) return *found;
  throw Error(ErrorKind::usage,
              "these arguments are a block in device memory: write to the block, at "
              "stepfuse_step_arg_offset");
}

}  // namespace

stepfuse_status stepfuse_step_create(const stepfuse_program* program, const stepfuse_layout* layout,
                                     const stepfuse_device* device,
                                     const stepfuse_step_options* options, stepfuse_step** step) {
  return guard([&] {
    auto& out = result(step);
    out =
        new stepfuse_step{Step(need(program, "the program").value, need(layout, "the layout").value,
                               device_of(device), options_of(options))};
  });
}

void stepfuse_step_destroy(stepfuse_step* step) { delete step; }

stepfuse_status stepfuse_step_prepare(stepfuse_step* step) {
  return guard([&] { step_of(step).prepare(); });
}

stepfuse_status stepfuse_step_compile_report(const stepfuse_step* step,
                                             stepfuse_compile_report* report) {
  return guard([&] {
    const CompileReport& r = step_of(step).compile_report();
    write_struct(report,
                 {.struct_size = 0,
                  .from_memory_cache = r.from_memory_cache,
                  .from_disk_cache = r.from_disk_cache,
                  .from_kernel_folder = r.from_kernel_folder,
                  .compile_ms = r.total_ms(),
                  .prepare_ms = r.prepare_ms,
                  .passes_ms = r.passes_ms,
                  .parse_ms = r.parse_ms,
                  .optimize_ms = r.optimize_ms,
                  .codegen_ms = r.codegen_ms,
                  .load_ms = r.load_ms,
                  .key = r.key.c_str()},
                 "the stepfuse_compile_report");
  });
}

stepfuse_status stepfuse_step_bind(stepfuse_step* step, const char* buffer, void* const* pointers,
                                   size_t count) {
  return guard([&] {
    step_of(step).bind_raw(text_of(buffer, "the buffer's name"), pointers_of(pointers, count));
  });
}

stepfuse_status stepfuse_step_init_state(stepfuse_step* step, stepfuse_stream stream) {
  return guard([&] { step_of(step).init_state({stream}); });
}

stepfuse_status stepfuse_step_init_tensors(stepfuse_step* step, size_t first,
                                           stepfuse_stream stream) {
  return guard([&] { step_of(step).init_tensors(Tensor{first}, {stream}); });
}

stepfuse_status stepfuse_step_adopt_state(stepfuse_step* step) {
  return guard([&] { step_of(step).adopt_state(); });
}

stepfuse_status stepfuse_step_set_group(stepfuse_step* step, size_t tensor, int32_t group) {
  return guard([&] { step_of(step).set_group(Tensor{tensor}, Group{group}); });
}

stepfuse_status stepfuse_step_append(stepfuse_step* step, const stepfuse_tensor* tensor) {
  return guard([&] { step_of(step).append(tensor_of(tensor)); });
}

size_t stepfuse_step_workspace_bytes(const stepfuse_step* step) {
  return size_or_zero([&] { return step_of(step).workspace_bytes(); });
}

stepfuse_status stepfuse_workspace_bytes(const stepfuse_program* program,
                                         const stepfuse_layout* layout,
                                         const stepfuse_step_options* options, int32_t device_kind,
                                         size_t* bytes) {
  return guard([&] {
    size_t& out = need(bytes, "the place for the result");
    out =
        Step::workspace_bytes(need(program, "the program").value, need(layout, "the layout").value,
                              options_of(options), kind_of(device_kind));
  });
}

stepfuse_status stepfuse_step_program(const stepfuse_step* step, stepfuse_program** program) {
  return guard([&] {
    auto& out = result(program);
    out = new stepfuse_program{step_of(step).program()};
  });
}

stepfuse_status stepfuse_step_layout(const stepfuse_step* step, stepfuse_layout** layout) {
  return guard([&] {
    auto& out = result(layout);
    out = new stepfuse_layout{step_of(step).layout()};
  });
}

stepfuse_status stepfuse_step_device(const stepfuse_step* step, stepfuse_device* device) {
  return guard([&] {
    const Device& d = step_of(step).device();
    write_struct(device,
                 {.struct_size = 0,
                  .kind = static_cast<int32_t>(d.kind()),
                  .threads = d.threads(),
                  .ordinal = d.ordinal(),
                  .level = d.level().c_str(),
                  .options = d.options().c_str()},
                 "the stepfuse_device");
  });
}

// --- arguments

stepfuse_status stepfuse_step_arg(const stepfuse_step* step, const char* name, int32_t* arg) {
  return guard([&] {
    int32_t& out = need(arg, "the place for the result");
    out = step_of(step).arg(text_of(name, "the argument's name")).index;
  });
}

stepfuse_status stepfuse_step_make_args(const stepfuse_step* step, stepfuse_args** args) {
  return guard([&] {
    auto& out = result(args);
    out = new stepfuse_args{step_of(step).make_args()};
  });
}

void stepfuse_args_destroy(stepfuse_args* args) { delete args; }

stepfuse_status stepfuse_args_copy(const stepfuse_args* args, stepfuse_args** copy) {
  return guard([&] {
    auto& out = result(copy);
    out = new stepfuse_args{need(args, "the args").value};
  });
}

stepfuse_status stepfuse_args_set(stepfuse_args* args, int32_t arg, double value) {
  return guard([&] { args_of(args).set(ArgId{arg}, value); });
}

stepfuse_status stepfuse_args_set_member(stepfuse_args* args, int32_t arg, int32_t member,
                                         double value) {
  return guard([&] { args_of(args).set(ArgId{arg}, Internals::member(member), value); });
}

stepfuse_status stepfuse_args_set_group(stepfuse_args* args, int32_t arg, int32_t member,
                                        double value) {
  return stepfuse_args_set_member(args, arg, member, value);
}

stepfuse_status stepfuse_args_get(const stepfuse_args* args, int32_t arg, int32_t member,
                                  double* value) {
  return guard([&] {
    double& out = need(value, "the place for the result");
    out = args_of(args).get(ArgId{arg}, Internals::member(member));
  });
}

stepfuse_status stepfuse_step_set_args(stepfuse_step* step, const stepfuse_args* args,
                                       stepfuse_stream stream) {
  return guard([&] { step_of(step).set_args(args_of(args), {stream}); });
}

stepfuse_status stepfuse_step_device_arg(const stepfuse_step* step, int32_t arg, int32_t member,
                                         void** address) {
  return guard([&] {
    auto& out = result(address);
    out = step_of(step).device_arg(ArgId{arg}, Internals::member(member));
  });
}

stepfuse_status stepfuse_step_args_at(const stepfuse_step* step, const void* block,
                                      stepfuse_args** args) {
  return guard([&] {
    step_of(step);
    auto& out = result(args);
    out = new stepfuse_args{DeviceArgs{block}};
  });
}

size_t stepfuse_step_args_bytes(const stepfuse_step* step) {
  return size_or_zero([&] { return step_of(step).args_bytes(); });
}

stepfuse_status stepfuse_step_arg_offset(const stepfuse_step* step, int32_t arg, int32_t member,
                                         size_t* offset) {
  return guard([&] {
    size_t& out = need(offset, "the place for the result");
    out = step_of(step).arg_offset(ArgId{arg}, Internals::member(member));
  });
}

stepfuse_status stepfuse_step_write_args(const stepfuse_step* step, const stepfuse_args* args,
                                         uint64_t* words, size_t count) {
  return guard([&] {
    step_of(step).write_args(args_of(args), {&need(words, "the array of words"), count});
  });
}

// --- states

stepfuse_status stepfuse_step_read_state(const stepfuse_step* step, const char* name,
                                         uint64_t* values, size_t capacity, size_t* count,
                                         stepfuse_stream stream) {
  return guard([&] {
    size_t& n = need(count, "the place for the count");
    std::vector<Bits> bits = step_of(step).read_state(text_of(name, "the state's name"), {stream});
    n = bits.size();
    if (capacity == 0) return;
    if (capacity < n) {
      throw Error(ErrorKind::usage, fmt::format("state '{}' has {}; there is room for {}", name,
                                                count_words(n, "value"), capacity));
    }
    uint64_t* out = &need(values, "the array of values");
    for (size_t i = 0; i < n; ++i) out[i] = bits[i].raw;
  });
}

stepfuse_status stepfuse_step_write_state(stepfuse_step* step, const char* name,
                                          const uint64_t* values, size_t count,
                                          stepfuse_stream stream) {
  return guard([&] {
    std::vector<Bits> bits;
    bits.reserve(count);
    for (size_t i = 0; i < count; ++i) bits.push_back({(&need(values, "the array of values"))[i]});
    step_of(step).write_state(text_of(name, "the state's name"), bits, {stream});
  });
}

stepfuse_status stepfuse_step_device_state(const stepfuse_step* step, const char* name,
                                           void** address) {
  return guard([&] {
    auto& out = result(address);
    out = step_of(step).device_state(text_of(name, "the state's name"));
  });
}

stepfuse_status stepfuse_save_checkpoint(const char* path, const stepfuse_step* step) {
  return guard(
      [&] { save_checkpoint(std::string(text_of(path, "the file's name")), step_of(step)); });
}

stepfuse_status stepfuse_load_checkpoint(const char* path, stepfuse_step* step) {
  return guard(
      [&] { load_checkpoint(std::string(text_of(path, "the file's name")), step_of(step)); });
}

stepfuse_status stepfuse_load_checkpoint_with(const char* path, stepfuse_step* step,
                                              const stepfuse_load_options* options) {
  return guard([&] {
    LoadOptions load;
    if (options != nullptr) {
      stepfuse_load_options o = read_struct(options, "the stepfuse_load_options");
      load.optional = names_of(o.optional, o.optional_count);
      load.ignored = names_of(o.ignored, o.ignored_count);
    }
    load_checkpoint(std::string(text_of(path, "the file's name")), step_of(step), load);
  });
}

stepfuse_status stepfuse_convert_checkpoint(const char* from, const char* to, const char* moments,
                                            uint64_t below) {
  return guard([&] {
    convert_checkpoint(std::string(text_of(from, "the file to read")),
                       std::string(text_of(to, "the file to write")),
                       text_of(moments, "the form of the moments"), below);
  });
}

// --- kernels

stepfuse_status stepfuse_use_kernels(const char* folder) {
  return guard([&] { use_kernels(std::string(text_of(folder, "the folder's name"))); });
}

stepfuse_status stepfuse_cache_stats(stepfuse_cache_counts* counts) {
  return guard([&] {
    CacheStats s = cache_stats();
    write_struct(counts, {.struct_size = 0, .compiled = s.compiled, .hits = s.hits},
                 "the stepfuse_cache_counts");
  });
}
