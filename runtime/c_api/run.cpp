// The C API: runs, their parts, and what they report. Knows the handles.
#include <cstdio>

#include <fmt/format.h>

#include "runtime/c_api/handles.hpp"

using namespace stepfuse;
using namespace stepfuse::c_api;

stepfuse_status stepfuse_step_run(stepfuse_step* step, void* const* gradients, size_t count,
                                  const stepfuse_args* args, stepfuse_stream stream) {
  return guard([&] {
    auto pointers = pointers_of(gradients, count);
    if (args != nullptr) {
      step_of(step).run(pointers, args->value, stream);
    } else {
      step_of(step).run(pointers, stream);
    }
  });
}

stepfuse_status stepfuse_step_observe(stepfuse_step* step, size_t first, void* const* gradients,
                                      size_t count, const stepfuse_args* args,
                                      stepfuse_stream stream) {
  return guard([&] {
    auto pointers = pointers_of(gradients, count);
    if (args != nullptr) {
      step_of(step).observe(first, pointers, args->value, stream);
    } else {
      step_of(step).observe(first, pointers, stream);
    }
  });
}

stepfuse_status stepfuse_step_reduce(stepfuse_step* step, void* const* gradients, size_t count,
                                     const stepfuse_args* args, stepfuse_stream stream) {
  return guard([&] {
    auto pointers = pointers_of(gradients, count);
    if (args != nullptr) {
      step_of(step).reduce(pointers, args->value, stream);
    } else {
      step_of(step).reduce(pointers, stream);
    }
  });
}

stepfuse_status stepfuse_step_run_at(stepfuse_step* step, void* const* gradients, size_t count,
                                     const void* args, stepfuse_stream stream) {
  return guard([&] { step_of(step).run(pointers_of(gradients, count), DeviceArgs{args}, stream); });
}

stepfuse_status stepfuse_step_observe_at(stepfuse_step* step, size_t first, void* const* gradients,
                                         size_t count, const void* args, stepfuse_stream stream) {
  return guard([&] {
    step_of(step).observe(first, pointers_of(gradients, count), DeviceArgs{args}, stream);
  });
}

stepfuse_status stepfuse_step_reduce_at(stepfuse_step* step, void* const* gradients, size_t count,
                                        const void* args, stepfuse_stream stream) {
  return guard(
      [&] { step_of(step).reduce(pointers_of(gradients, count), DeviceArgs{args}, stream); });
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

stepfuse_status stepfuse_step_partial(const stepfuse_step* step, size_t index,
                                      stepfuse_partial* partial) {
  return guard([&] {
    Partials partials = step_of(step).partials();
    if (index >= partials.all.size()) {
      throw Error(ErrorKind::usage, fmt::format("there is no partial {}: the step has {}", index,
                                                partials.all.size()));
    }
    const Partial& p = partials.all[index];
    stepfuse_partial out{};
    std::snprintf(out.name, sizeof out.name, "%s", p.name.c_str());
    std::snprintf(out.op, sizeof out.op, "%s", std::string(info(p.op).name).c_str());
    out.dtype = static_cast<stepfuse_dtype>(p.dtype);
    out.count = p.count;
    out.offset = p.offset;
    out.pieces = p.pieces;
    out.piece_count = p.piece_count;
    write_struct(partial, out, "the stepfuse_partial");
  });
}

// --- statistics

namespace {

// What there is to report goes to `to`; *found says whether there is.
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

stepfuse_status stepfuse_step_wait(const stepfuse_step* step, stepfuse_stream stream,
                                   stepfuse_stats* stats, int32_t* found) {
  return guard([&] { report(step_of(step).stats(stream), stats, found); });
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
    out = need(stats, "the stats").value.at(text_of(report, "the report's name"));
  });
}

size_t stepfuse_stats_count(const stepfuse_stats* stats) {
  return stats != nullptr ? stats->value.values.size() : 0;
}

const char* stepfuse_stats_name(const stepfuse_stats* stats, size_t index) {
  return index < stepfuse_stats_count(stats) ? stats->value.values[index].first.c_str() : nullptr;
}

stepfuse_status stepfuse_stats_json(const stepfuse_stats* stats, char** line) {
  return guard([&] {
    auto& out = result(line);
    out = copy_text(to_json_line(need(stats, "the stats").value));
  });
}
