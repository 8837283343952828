// The C API: layouts, loss scalers, monitors. Knows the handles.
#include <fmt/format.h>

#include "runtime/c_api/handles.hpp"

using namespace stepfuse;
using namespace stepfuse::c_api;

namespace {
// Tells whether the caller's header has `counted` and `updated`; older headers have `uncounted` and
// `frozen`.
bool has_new_words(const stepfuse_tensor& tensor) {
  return tensor.struct_size >= offsetof(stepfuse_tensor, updated) + sizeof tensor.updated;
}
}  // namespace

TensorSpec c_api::tensor_of(const stepfuse_tensor* tensor) {
  stepfuse_tensor t = read_struct(tensor, "the stepfuse_tensor");
  TensorSpec spec{.name = text_or(t.name, ""),
                  .elements = t.elements,
                  .group = t.group,
                  .offset = t.offset,
                  .full_elements = t.full_elements,
                  .columns = t.columns,
                  .counted = t.uncounted == 0,
                  .updated = t.frozen == 0,
                  .present_by_gradient = t.present_by_gradient != 0};
  if (has_new_words(t)) {
    spec.counted = spec.counted && t.counted != 0;
    spec.updated = spec.updated && t.updated != 0;
  }
  if (t.id != nullptr) spec.id = *t.id;
  for (size_t i = 0; i < t.storage_count; ++i) {
    const stepfuse_storage& s = (&need(t.storage, "the array of storage types"))[i];
    spec.dtypes[std::string(text_of(s.buffer, "a buffer's name"))] = dtype_of(s.dtype);
  }
  return spec;
}

// --- layout

stepfuse_status stepfuse_layout_create(stepfuse_layout** layout) {
  return guard([&] {
    auto& out = result(layout);
    out = new stepfuse_layout;
  });
}

void stepfuse_layout_destroy(stepfuse_layout* layout) { delete layout; }

stepfuse_status stepfuse_layout_add(stepfuse_layout* layout, const stepfuse_tensor* tensor) {
  return guard([&] { need(layout, "the layout").value.add(tensor_of(tensor)); });
}

stepfuse_status stepfuse_layout_reserve_groups(stepfuse_layout* layout, int32_t count) {
  return guard([&] { need(layout, "the layout").value.reserve_groups(count); });
}

size_t stepfuse_layout_size(const stepfuse_layout* layout) {
  return layout != nullptr ? layout->value.size() : 0;
}
size_t stepfuse_layout_group_count(const stepfuse_layout* layout) {
  return layout != nullptr ? static_cast<size_t>(layout->value.group_count()) : 0;
}
uint64_t stepfuse_layout_element_count(const stepfuse_layout* layout) {
  return layout != nullptr ? layout->value.element_count() : 0;
}

stepfuse_status stepfuse_layout_tensor(const stepfuse_layout* layout, size_t index,
                                       stepfuse_tensor* tensor) {
  return guard([&] {
    const stepfuse_layout& l = need(layout, "the layout");
    const TensorSpec& t = declared(l.value.tensors(), index, "tensor", "the layout has");
    bool old = !has_new_words(need(tensor, "the stepfuse_tensor"));
    l.storage.clear();
    for (const auto& [buffer, dtype] : t.dtypes) {
      l.storage.push_back({buffer.c_str(), static_cast<stepfuse_dtype>(dtype)});
    }
    write_struct(tensor,
                 {.struct_size = 0,
                  .name = t.name.c_str(),
                  .elements = t.elements,
                  .group = t.group,
                  .offset = t.offset,
                  .uncounted = old && !t.counted,
                  .frozen = old && !t.updated,
                  .storage = l.storage.data(),
                  .storage_count = l.storage.size(),
                  .full_elements = t.full_elements,
                  .id = t.id ? &*t.id : nullptr,
                  .columns = t.columns,
                  .counted = t.counted,
                  .updated = t.updated,
                  .present_by_gradient = t.present_by_gradient},
                 "the stepfuse_tensor");
  });
}

// --- loss scaler

namespace {

template <class T>
void set_unless_zero(T& option, double given) {
  if (given != 0) option = static_cast<T>(given);
}

LossScaler::Options scaler_options(const stepfuse_scaler_options* given) {
  LossScaler::Options options;
  if (given == nullptr) return options;
  stepfuse_scaler_options o = read_struct(given, "the stepfuse_scaler_options");
  set_unless_zero(options.init_scale, o.init_scale);
  set_unless_zero(options.growth_factor, o.growth_factor);
  set_unless_zero(options.backoff_factor, o.backoff_factor);
  set_unless_zero(options.growth_interval, o.growth_interval);
  return options;
}

}  // namespace

stepfuse_status stepfuse_scaler_create(const stepfuse_scaler_options* options,
                                       stepfuse_scaler** scaler) {
  return guard([&] {
    auto& out = result(scaler);
    out = new stepfuse_scaler{LossScaler(scaler_options(options))};
  });
}

void stepfuse_scaler_destroy(stepfuse_scaler* scaler) { delete scaler; }

stepfuse_status stepfuse_scaler_get_options(const stepfuse_scaler* scaler,
                                            stepfuse_scaler_options* options) {
  return guard([&] {
    const LossScaler::Options& o = need(scaler, "the scaler").value.options();
    write_struct(options,
                 {.struct_size = 0,
                  .init_scale = o.init_scale,
                  .growth_factor = o.growth_factor,
                  .backoff_factor = o.backoff_factor,
                  .growth_interval = o.growth_interval},
                 "the stepfuse_scaler_options");
  });
}

stepfuse_status stepfuse_scaler_device_scale(const stepfuse_scaler* scaler, const float** scale) {
  return guard([&] {
    auto& out = result(scale);
    out = need(scaler, "the scaler").value.device_scale();
  });
}

stepfuse_status stepfuse_scaler_read(const stepfuse_scaler* scaler, const char* state,
                                     double* value) {
  return guard([&] {
    double& out = need(value, "the place for the result");
    out = need(scaler, "the scaler").value.read(text_of(state, "the state's name"));
  });
}

stepfuse_status stepfuse_scaler_write(stepfuse_scaler* scaler, const char* state, double value) {
  return guard(
      [&] { need(scaler, "the scaler").value.write(text_of(state, "the state's name"), value); });
}

stepfuse_status stepfuse_scaler_update(stepfuse_scaler* scaler, double new_scale) {
  return guard([&] { need(scaler, "the scaler").value.update(new_scale); });
}

// --- monitor

namespace {

stepfuse_status add_rule(stepfuse_monitor* monitor, stepfuse_finding finding, void* user,
                         const auto& make_rule) noexcept {
  return guard([&] {
    Monitor& m = need(monitor, "the monitor").value;
    if (finding == nullptr) refuse_null("the function to call");
    m.add(make_rule(), [finding, user](const Finding& f) {
      stepfuse_stats stats{f.stats};
      finding(user, &stats, f.message.c_str());
    });
  });
}

}  // namespace

stepfuse_status stepfuse_monitor_create(stepfuse_monitor** monitor) {
  return guard([&] {
    auto& out = result(monitor);
    out = new stepfuse_monitor;
  });
}

void stepfuse_monitor_destroy(stepfuse_monitor* monitor) { delete monitor; }

stepfuse_status stepfuse_monitor_scale_below(stepfuse_monitor* monitor, double limit,
                                             stepfuse_finding finding, void* user) {
  return add_rule(monitor, finding, user, [&] { return scale_below(limit); });
}

stepfuse_status stepfuse_monitor_norm_near(stepfuse_monitor* monitor, double max_norm, double share,
                                           int32_t in_a_row, stepfuse_finding finding, void* user) {
  return add_rule(monitor, finding, user, [&] { return norm_near(max_norm, share, in_a_row); });
}

stepfuse_status stepfuse_monitor_never_clipped(stepfuse_monitor* monitor, int32_t steps,
                                               stepfuse_finding finding, void* user) {
  return add_rule(monitor, finding, user, [&] { return never_clipped(steps); });
}

stepfuse_status stepfuse_monitor_skipped(stepfuse_monitor* monitor, int32_t in_a_row,
                                         stepfuse_finding finding, void* user) {
  return add_rule(monitor, finding, user, [&] { return skipped_in_a_row(in_a_row); });
}

stepfuse_status stepfuse_monitor_rule(stepfuse_monitor* monitor, const char* name,
                                      stepfuse_condition holds, int32_t in_a_row,
                                      stepfuse_finding finding, void* user) {
  return add_rule(monitor, finding, user, [&] {
    if (holds == nullptr) refuse_null("the condition");
    auto condition = [holds, user](const StepStats& s) -> std::optional<bool> {
      stepfuse_stats stats{s};
      int32_t answer = holds(user, &stats);
      return answer < 0 ? std::nullopt : std::optional<bool>(answer != 0);
    };
    return Rule{std::string(text_of(name, "the rule's name")), condition, in_a_row};
  });
}

stepfuse_status stepfuse_monitor_feed(stepfuse_monitor* monitor, const stepfuse_step* step) {
  return guard([&] { need(monitor, "the monitor").value.feed(need(step, "the step").value); });
}

stepfuse_status stepfuse_monitor_feed_stats(stepfuse_monitor* monitor,
                                            const stepfuse_stats* stats) {
  return guard([&] { need(monitor, "the monitor").value.feed(need(stats, "the stats").value); });
}

uint64_t stepfuse_monitor_lost(const stepfuse_monitor* monitor) {
  return monitor != nullptr ? monitor->value.lost() : 0;
}
