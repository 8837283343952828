// Constructs, prepares and changes steps. Knows the runtime's parts and fmt.
#include "runtime/step/step_impl.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>

#include "ir/text/words.hpp"
#include "runtime/device/host_reports.hpp"
#include "runtime/process/fork_watch.hpp"
#include "runtime/process/say.hpp"
#include "runtime/step/init_program.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/loss_scaler.hpp"

namespace stepfuse {
namespace {

// Reads STEPFUSE_FORM=fused|split|unfused|interpret, which bisects a bad run without a change to the
// program. Returns whether the step must be interpreted.
bool override_form(const Device& device, StepOptions& options) {
  const char* wanted = std::getenv("STEPFUSE_FORM");
  if (wanted == nullptr || *wanted == '\0') return false;
  std::string_view text = wanted;
  if (text == "interpret") {
    static std::once_flag told;
    if (device.kind() != Device::Kind::interpreter) {
      std::call_once(told, [] {
        say("stepfuse: STEPFUSE_FORM=interpret: every step of this process is interpreted on the "
            "host, which is slow");
      });
    }
    return true;
  }
  auto form = form_from_name(text);
  if (!form) {
    throw Error(ErrorKind::usage,
                fmt::format("STEPFUSE_FORM={} is not fused, split, unfused or interpret",
                            text.substr(0, 40)));
  }
  options.form = *form;
  return false;
}

bool writes_state(const Program& program, size_t state) {
  return std::any_of(program.insts.begin(), program.insts.end(), [&](const Inst& inst) {
    return inst.op == Op::write && inst.slot == static_cast<int32_t>(state);
  });
}

}  // namespace

Step::Impl::Impl(Program given, Layout layout, const Device& where, const StepOptions& wanted)
    : program(std::move(given)),
      device(where),
      options(wanted),
      scaler(wanted.scaler != nullptr ? Internals::of(*wanted.scaler) : nullptr) {
  options.scaler = nullptr;
  ForkWatch watch;
  check_step(program, options);
  bool shared = std::any_of(program.states.begin(), program.states.end(),
                            [](const State& s) { return s.shared; });
  if (shared && scaler == nullptr) {
    throw Error(ErrorKind::bind, fmt::format("step @{} has shared states: pass a LossScaler as "
                                             "StepOptions::scaler",
                                             program.name));
  }
  layout_check_.emplace(program).add(layout);
  bool interpreted = override_form(device, options);
  recorder = Recorder::from_environment();
  backend = make_backend(device, interpreted);
  plan = std::make_unique<StepPlan>(program, std::move(layout), options.form, options.observe);
  begins_somehow_ = std::any_of(program.buffers.begin(), program.buffers.end(),
                                [](const Buffer& b) { return b.init != Buffer::Init::none; });
  int window = program.find_state("micro_batches");
  if (window >= 0 && program.states[static_cast<size_t>(window)].shared) {
    closes_windows_ = program.find_arg("accumulation") >= 0;
    if (!closes_windows_) opens_windows_ = scaler->open_windows();
  }
  allocate();
  initialise_states(0, States::all, {});
  fit_ring();
}

Step::Impl::~Impl() {
  try {
    backend->wait();
  } catch (const Error&) {
    // The device is lost: nothing runs there any more.
  }
}

void Step::Impl::wait() const {
  backend->wait();
  if (scaler != nullptr) scaler->wait();
}

size_t Step::Impl::block_bytes() const {
  size_t own = backend->table_bytes(plan->kernels(), plan->tables);
  return own == 0 ? plan->workspace.bytes : plan->workspace.tables_offset() + own;
}

// Makes memory, binding, argument shape and names for the current plan.
void Step::Impl::allocate() {
  plan->block =
      std::make_unique<WorkspaceBlock>(block_bytes(), options.allocator, backend->memory());
  plan->binding = std::make_unique<Binding>(plan->variant.program, plan->layout, plan->tables,
                                            options.gradient, backend->memory());
  shape = std::make_shared<Args::Shape>(program, plan->layout, options.check_args);
  if (scaler != nullptr) scaler->serve(backend->pending());
  for (size_t i = 0; i < program.states.size(); ++i) {
    const State& s = program.states[i];
    plan->states.push_back(s.shared ? scaler->attach(s, backend->memory())
                                    : plan->block->base() + plan->workspace.states[i]);
  }
  name_ranges();
  plan->observed.assign(plan->layout.size(), 0);
}

// With per-tensor or per-group reports, append() changes the width of the records.
void Step::Impl::fit_ring() {
  size_t reports = report_count(plan->kernels(), plan->tables);
  if (ring && ring->reports() == reports) return;
  ring = std::make_unique<StatsRing>(reports, static_cast<size_t>(options.stats_ring));
}

// A graph holds the addresses of the step's tables and blocks, and the tables hold those of the arrays.
void Step::Impl::refuse_in_live_graph(std::string_view what) const {
  if (!backend->in_live_graph()) return;
  throw Error(
      ErrorKind::usage,
      fmt::format(
          "{} while a captured graph of this step is alive, whose replays would use wrong "
          "addresses: destroy the graph and its executables first, and capture again afterwards",
          what));
}

// The name is "stepfuse adamw fused f16,f32,f32,f32": recipe, form, and the storage types of each
// signature.
void Step::Impl::name_ranges() {
  plan->range_name = fmt::format("stepfuse {} {}", program.name, name(options.form));
  for (const Signature& signature : plan->variant.signatures) {
    for (size_t b = 0; b < signature.size(); ++b) {
      plan->range_name += fmt::format("{}{}", b == 0 ? " " : ",", name(signature[b]));
    }
  }
  plan->observe_name = plan->range_name + " observe";
  plan->reduce_name = plan->range_name + " reduce";
}

void Step::Impl::prepare() {
  ForkWatch watch;
  Busy busy(*this);
  NvtxRange range(nvtx, (plan->range_name + " prepare").c_str());
  refuse_in_live_graph("prepare()");
  plan->prepared = false;
  backend->collect(*ring, true, {});  // reports of earlier runs
  report = {};
  report.passes_ms = plan->passes_ms;
  auto start = std::chrono::steady_clock::now();
  backend->prepare(plan->variant, options.observe, report);
  attach();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.prepare_ms = took.count();
  forget_phases();
  plan->prepared = true;
}

// Drops the results of earlier phases, which belong to other kernels, groups or arrays. The first phase
// runs again. run() refuses to continue from a reduce(), because ranks may have replaced its results.
void Step::Impl::forget_phases() {
  std::fill(plan->observed.begin(), plan->observed.end(), uint8_t{0});
  plan->outdated |= plan->reduced;
  plan->reduced = false;
}

void Step::Impl::attach() {
  backend->attach(plan->variant, plan->tables,
                  {&plan->workspace, plan->block->base(),
                   plan->block->base() + plan->workspace.tables_offset(), plan->states});
}

void Step::Impl::set_group(size_t tensor, int group) {
  Busy busy(*this);
  refuse_in_live_graph("set_group()");
  int before = tensor < plan->layout.size() ? plan->layout.tensors()[tensor].group : 0;
  plan->layout.set_group(Tensor{tensor},
                         Group{group});  // throws if there is no such tensor or group
  try {
    plan->tables.set_group(tensor, static_cast<uint32_t>(group));
  } catch (...) {
    plan->layout.set_group(Tensor{tensor}, Group{before});
    throw;
  }
  plan->binding->recheck();  // tied tensors must be in one group
  forget_phases();
  if (!plan->prepared) return;
  plan->prepared = false;  // in case the rest fails
  backend->collect(*ring, true, {});
  wait();
  attach();
  plan->prepared = true;
}

void Step::Impl::bind(std::string_view buffer, std::span<void* const> pointers) {
  Busy busy(*this);
  if (plan->binding->differs(program.find_buffer(buffer), pointers)) {
    refuse_in_live_graph(fmt::format("@{} is bound to other arrays", buffer.substr(0, 80)));
  }
  if (!plan->binding->bind(buffer, pointers)) return;
  tables_changed_ = true;
  forget_phases();  // tensors may have become duplicates, or ceased to be
}

void Step::Impl::bind(std::string_view buffer, std::span<const Array> arrays) {
  bind(buffer, plan->binding->checked(buffer, arrays));
}

// Initialises the states of tensors [first_tensor, end), and with 0 also the states that are not per
// tensor.
void Step::Impl::initialise_states(size_t first_tensor, States which, Stream stream) {
  for (size_t i = 0; i < program.states.size(); ++i) {
    const State& s = program.states[i];
    // The caller has written it, as a seed.
    if (which == States::written && !writes_state(program, i)) continue;
    if (s.shared || (first_tensor > 0 && s.type.at.scope != Scope::tensor)) continue;
    size_t bytes = size_of(s.type.dtype);
    size_t count = member_count(s.type.at, plan->layout);
    std::vector<char> values(count * bytes);
    for (size_t m = 0; m < count; ++m) store_bits(&values[m * bytes], s.type.dtype, s.initial);
    if (bool TensorSpec::* flag = tensor_flag(s)) {
      for (size_t m = 0; m < count; ++m) values[m] = plan->layout.tensors()[m].*flag ? 1 : 0;
    }
    size_t first = first_tensor;
    if (splits_tensor(s.type.at)) {
      first = 0;
      for (size_t t = 0; t < first_tensor; ++t) {
        const TensorSpec& spec = plan->layout.tensors()[t];
        first += tile_count(s.type.at, shape_of(spec.elements, spec.column_count()));
      }
    }
    size_t skip = first * bytes;
    backend->memory()->copy_to_device(static_cast<char*>(plan->states[i]) + skip,
                                      values.data() + skip, values.size() - skip, stream);
  }
}

// Initialises states and arrays of tensors [first_tensor, end); with 0, everything.
void Step::Impl::init_state(size_t first_tensor, Stream stream) {
  size_t total = plan->layout.size();
  if (first_tensor > total) {
    throw Error(ErrorKind::usage, fmt::format("init_tensors({}): the layout has {}", first_tensor,
                                              count_words(total, "tensor")));
  }
  if (first_tensor > initialised_) {
    throw Error(ErrorKind::usage, fmt::format("init_tensors({}): the tensors from {} on have no "
                                              "initial values yet either",
                                              first_tensor, initialised_));
  }
  std::optional<Program> init = make_init_program(program);
  {
    Busy busy(*this);
    plan->binding->check_complete();
    wait();
    initialised_ = first_tensor;  // in case the rest fails
    initialise_states(first_tensor, States::written, stream);
  }
  if (!init || first_tensor == total) {
    initialised_ = total;
    return;
  }
  Impl step(*init, init_layout(*init, plan->layout, first_tensor), device,
            {.allocator = options.allocator, .gradient = ""});
  step.recorder.reset();  // the caller did not make this step
  step.prepare();
  std::vector<void*> pointers(total - first_tensor);
  for (const Buffer& b : init->buffers) {
    auto slot = static_cast<size_t>(program.find_buffer(b.name));
    for (size_t t = 0; t < pointers.size(); ++t) {
      pointers[t] = plan->tables.pointer(first_tensor + t, slot);
    }
    step.bind(b.name, pointers);
  }
  Args args = step.make_args();
  step.run({}, step.by_value(args), stream);
  initialised_ = total;
}

void Step::Impl::check_ready() {
  if (!plan->prepared) {
    throw Error(ErrorKind::usage, "call prepare() before the first run: run() never compiles");
  }
  plan->binding->check_complete();
  if (initialised_ < plan->layout.size() && begins_somehow_) {
    throw Error(
        ErrorKind::usage,
        fmt::format(
            "tensor {} is not initialised: call init_state() or load_checkpoint() before the "
            "first run, init_tensors() after append(), or adopt_state() to keep what its "
            "arrays contain",
            initialised_));
  }
  if (closes_windows_ && !scaler->counts_micro_batches()) {
    throw Error(
        ErrorKind::usage,
        fmt::format("step @{} closes accumulation windows, but no step that opens them is on "
                    "its LossScaler: make accumulate and this step with the same "
                    "StepOptions::scaler (or count yourself: scaler.write(\"micro_batches\", "
                    "n) before each run)",
                    program.name));
  }
  closes_windows_ = false;  // the check is needed once
}

void Step::Impl::adopt_state() {
  initialised_ = plan->layout.size();
  if (scaler != nullptr) scaler->forget_changes();
}

RunInputs Step::Impl::inputs(const ArgSource& args, Stream stream) const {
  RunInputs in;
  in.tables = &plan->tables;
  in.tables_changed = tables_changed_;
  if (args.values != nullptr) in.args = args.values->words_;
  in.args_block = args.block;
  in.step_arg_count = shape->layout.step_words;
  in.group_count = static_cast<uint32_t>(shape->group_count);
  in.stream = stream;
  in.index = next_index_;
  return in;
}

void Step::Impl::append(TensorSpec tensor) {
  Busy busy(*this);
  refuse_in_live_graph("append()");
  const Layout& now = grown_ ? grown_->layout : plan->layout;
  now.check(tensor);
  signature_of(program, tensor, now.size());
  LayoutCheck check = grown_ ? grown_->check : *layout_check_;
  check.add(tensor, now.size());
  if (!grown_) grown_ = {plan->layout, *layout_check_};
  grown_->layout.add(std::move(tensor));
  grown_->check = check;
}

// Plans the step again for all appended tensors at once. If that fails, none is appended.
void Step::Impl::grow() {
  Busy busy(*this);
  Grown grown = *std::exchange(grown_, std::nullopt);
  auto next =
      std::make_unique<StepPlan>(program, std::move(grown.layout), options.form, options.observe);
  next->outdated = plan->outdated || plan->reduced;
  backend->collect(*ring, true, {});  // reports that the old block still holds
  wait();
  std::vector<std::vector<char>> saved(program.states.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    const State& s = program.states[i];
    if (s.shared) continue;
    saved[i].resize(member_count(s.type.at, plan->layout) * size_of(s.type.dtype));
    backend->memory()->copy_to_host(saved[i].data(), plan->states[i], saved[i].size(), {});
  }
  // The old plan is kept until the new one has everything.
  auto old_shape = shape;
  std::swap(plan, next);
  try {
    allocate();
    initialise_states(0, States::all, {});
    for (size_t i = 0; i < saved.size(); ++i) {
      backend->memory()->copy_to_device(plan->states[i], saved[i].data(), saved[i].size(), {});
    }
    fit_ring();
  } catch (...) {
    std::swap(plan, next);
    shape = std::move(old_shape);
    throw;
  }
  layout_check_ = grown.check;
}

}  // namespace stepfuse
