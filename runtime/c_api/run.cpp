// The C API: runs, phases of runs, and their statistics. Knows the handles.
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/reduction.hpp"
#include "runtime/c_api/handles.hpp"
#include "runtime/step/internals.hpp"

using namespace stepfuse;
using namespace stepfuse::c_api;

namespace {

// Calls `run` with the arguments, or `captured`, which uses those of set_args.
template <class Run, class Captured>
stepfuse_status guard_run(const stepfuse_args* args, Run&& run, Captured&& captured) {
  return guard([&] {
    if (args == nullptr) return captured();
    std::visit([&](const auto& value) { run(value); }, args->value);
  });
}

}  // namespace

stepfuse_status stepfuse_step_run(stepfuse_step* step, void* const* gradients, size_t count,
                                  const stepfuse_args* args, stepfuse_stream stream) {
  auto pointers = [&] { return pointers_of(gradients, count); };
  return guard_run(
      args, [&](const auto& from) { step_of(step).run(pointers(), from, {stream}); },
      [&] { step_of(step).run_captured(pointers(), {stream}); });
}

stepfuse_status stepfuse_step_observe(stepfuse_step* step, size_t first, void* const* gradients,
                                      size_t count, const stepfuse_args* args,
                                      stepfuse_stream stream) {
  auto pointers = [&] { return pointers_of(gradients, count); };
  return guard_run(
      args,
      [&](const auto& from) { step_of(step).observe(Tensor{first}, pointers(), from, {stream}); },
      [&] { step_of(step).observe_captured(Tensor{first}, pointers(), {stream}); });
}

stepfuse_status stepfuse_step_reduce(stepfuse_step* step, void* const* gradients, size_t count,
                                     const stepfuse_args* args, stepfuse_stream stream) {
  auto pointers = [&] { return pointers_of(gradients, count); };
  return guard_run(
      args, [&](const auto& from) { step_of(step).reduce(pointers(), from, {stream}); },
      [&] { step_of(step).reduce_captured(pointers(), {stream}); });
}

stepfuse_status stepfuse_step_run_at(stepfuse_step* step, void* const* gradients, size_t count,
                                     const void* block, stepfuse_stream stream) {
  stepfuse_args args{DeviceArgs{block}};
  return stepfuse_step_run(step, gradients, count, &args, stream);
}

stepfuse_status stepfuse_step_observe_at(stepfuse_step* step, size_t first, void* const* gradients,
                                         size_t count, const void* block, stepfuse_stream stream) {
  stepfuse_args args{DeviceArgs{block}};
  return stepfuse_step_observe(step, first, gradients, count, &args, stream);
}

stepfuse_status stepfuse_step_reduce_at(stepfuse_step* step, void* const* gradients, size_t count,
                                        const void* block, stepfuse_stream stream) {
  stepfuse_args args{DeviceArgs{block}};
  return stepfuse_step_reduce(step, gradients, count, &args, stream);
}

stepfuse_status stepfuse_step_partials(const stepfuse_step* step, void** block, size_t* bytes,
                                       size_t* count) {
  return guard([&] {
    auto& out = result(block);
    Partials partials = step_of(step).partials();
    if (bytes != nullptr) *bytes = partials.bytes;
    if (count != nullptr) *count = partials.all.size();
    out = partials.block;
  });
}

namespace {

void write_partial(stepfuse_partial* to, const stepfuse_step* step, const Partial& p) {
  stepfuse_partial out{};
  std::snprintf(out.name, sizeof out.name, "%s", p.name.c_str());
  std::snprintf(out.op, sizeof out.op, "%s", std::string(name(p.op)).c_str());
  out.dtype = static_cast<stepfuse_dtype>(p.dtype);
  out.count = p.count;
  out.offset = p.offset;
  out.pieces = p.pieces;
  out.piece_count = p.piece_count;
  out.pipeline = p.pipeline ? 1 : 0;
  step->partial_name = p.name;
  out.full_name = step->partial_name.c_str();
  write_struct(to, out, "the stepfuse_partial");
}

}  // namespace

stepfuse_status stepfuse_step_partial(const stepfuse_step* step, size_t index,
                                      stepfuse_partial* partial) {
  return guard([&] {
    Partials partials = step_of(step).partials();
    write_partial(partial, step, declared(partials.all, index, "partial", "the step has"));
  });
}

stepfuse_status stepfuse_step_partial_at(const stepfuse_step* step, const char* name,
                                         stepfuse_partial* partial) {
  return guard([&] {
    Partials partials = step_of(step).partials();
    write_partial(partial, step, partials.at(text_of(name, "the partial's name")));
  });
}

stepfuse_status stepfuse_step_fold_pieces(stepfuse_step* step, size_t index, const void* pieces,
                                          size_t count) {
  return guard([&] {
    FpEnvGuard fp;
    Partials partials = step_of(step).partials();
    const Partial& p = declared(partials.all, index, "partial", "the step has");
    if (step_of(step).device().kind() == Device::Kind::cuda || p.count != 1) {
      throw Error(
          ErrorKind::usage,
          fmt::format("the pieces of '{}' cannot be folded: that takes a step in host memory, "
                      "and a reduction over all of its tensors",
                      p.name));
    }
    size_t size = size_of(p.dtype);
    const char* from = &need(static_cast<const char*>(pieces), "the array of pieces");
    std::vector<Bits> values(count);
    for (size_t i = 0; i < count; ++i) std::memcpy(&values[i], from + i * size, size);
    Bits total = fold_values(op_of(p.op), p.dtype, std::move(values));
    std::memcpy(static_cast<char*>(partials.block) + p.offset, &total, size);
  });
}

// --- statistics

namespace {

// Writes the statistics to `to`, if there are any, and sets *found.
void report(std::optional<StepStats> stats, stepfuse_stats* to, int32_t* found) {
  StepStats& out = need(to, "the stats").value;
  int32_t& there = need(found, "the place that says whether there are any");
  there = stats.has_value();
  if (stats) out = std::move(*stats);
}

}  // namespace

stepfuse_status stepfuse_stats_create(stepfuse_stats** stats) {
  return guard([&] {
    auto& out = result(stats);
    out = new stepfuse_stats;
  });
}

void stepfuse_stats_destroy(stepfuse_stats* stats) { delete stats; }

stepfuse_status stepfuse_step_latest(const stepfuse_step* step, stepfuse_stats* stats,
                                     int32_t* found) {
  return guard([&] { report(step_of(step).latest(), stats, found); });
}

stepfuse_status stepfuse_step_stats(const stepfuse_step* step, stepfuse_stream stream,
                                    stepfuse_stats* stats, int32_t* found) {
  return guard([&] { report(step_of(step).stats({stream}), stats, found); });
}

stepfuse_status stepfuse_step_wait(const stepfuse_step* step, stepfuse_stream stream,
                                   stepfuse_stats* stats, int32_t* found) {
  return stepfuse_step_stats(step, stream, stats, found);
}

stepfuse_status stepfuse_step_history(const stepfuse_step* step,
                                      void (*each)(void* user, const stepfuse_stats* stats),
                                      void* user) {
  return guard([&] {
    if (each == nullptr) refuse_null("the function to call");
    for (StepStats& s : step_of(step).history()) {
      stepfuse_stats stats{std::move(s)};
      each(user, &stats);
    }
  });
}

uint64_t stepfuse_stats_index(const stepfuse_stats* stats) {
  return stats != nullptr ? stats->value.index : 0;
}

stepfuse_status stepfuse_stats_get(const stepfuse_stats* stats, const char* report, double* value) {
  return guard([&] {
    double& out = need(value, "the place for the result");
    const StepStats& s = need(stats, "the stats").value;
    std::string_view name = text_of(report, "the report's name");
    if (s.find_list(name) != nullptr) {
      throw Error(
          ErrorKind::usage,
          fmt::format("'{}' is reported per group or tensor: read it with stepfuse_stats_list",
                      name));
    }
    out = s.at(name);
  });
}

size_t stepfuse_stats_count(const stepfuse_stats* stats) {
  return stats != nullptr ? stats->value.values.size() : 0;
}

const char* stepfuse_stats_name(const stepfuse_stats* stats, size_t index) {
  return index < stepfuse_stats_count(stats) ? stats->value.values[index].first.c_str() : nullptr;
}

size_t stepfuse_stats_list_count(const stepfuse_stats* stats) {
  return stats != nullptr ? stats->value.lists.size() : 0;
}

const char* stepfuse_stats_list_name(const stepfuse_stats* stats, size_t index) {
  return index < stepfuse_stats_list_count(stats) ? stats->value.lists[index].first.c_str()
                                                  : nullptr;
}

stepfuse_status stepfuse_stats_list(const stepfuse_stats* stats, const char* report,
                                    const double** values, size_t* count) {
  return guard([&] {
    auto& out = result(values);
    size_t& n = need(count, "the place for the count");
    const StepStats& s = need(stats, "the stats").value;
    std::string_view name = text_of(report, "the report's name");
    const std::vector<double>* list = s.find_list(name);
    if (list == nullptr) {
      s.at(name);  // throws if the step has no such report
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' is one value: read it with stepfuse_stats_get", name));
    }
    n = list->size();
    out = list->data();
  });
}

stepfuse_status stepfuse_stats_json(const stepfuse_stats* stats, char** line) {
  return guard([&] {
    auto& out = result(line);
    out = copy_text(to_json_line(need(stats, "the stats").value));
  });
}
