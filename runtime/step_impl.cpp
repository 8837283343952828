// A step's life: construction, preparation, runs. Knows the runtime's parts and fmt.
#include "runtime/step_impl.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <numeric>

#include <fmt/format.h>

#include "ir/verifier.hpp"
#include "runtime/fork_watch.hpp"
#include "runtime/host_reports.hpp"
#include "runtime/init_program.hpp"
#include "runtime/loss_scaler.hpp"
#include "runtime/say.hpp"

namespace stepfuse {
namespace {

// STEPFUSE_FORM=fused|split|unfused|interpret bisects a bad run without touching the program.
// Returns whether the step is to be interpreted.
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

// The layout's word for a state that says yes or no of each tensor; null for other states.
bool TensorSpec::* tensor_flag(const State& s) {
  if (s.type != Type{DType::boolean, Domain::tensor}) return nullptr;
  if (s.name == "counted") return &TensorSpec::counted;
  return s.name == "updated" ? &TensorSpec::updated : nullptr;
}

void check_tensor_flags(const Program& program, const Layout& layout) {
  auto has = [&](bool TensorSpec::* flag) {
    return std::any_of(program.states.begin(), program.states.end(),
                       [&](const State& s) { return tensor_flag(s) == flag; });
  };
  bool can_exclude = has(&TensorSpec::counted), can_freeze = has(&TensorSpec::updated);
  for (size_t t = 0; t < layout.size(); ++t) {
    const TensorSpec& spec = layout.tensors()[t];
    if ((spec.counted || can_exclude) && (spec.updated || can_freeze)) continue;
    throw Error(ErrorKind::bind,
                fmt::format("tensor {} '{}' is not to be {}, but step @{} has no such state: make "
                            "the recipe with tensor_flags",
                            t, spec.name.substr(0, 80),
                            spec.counted || can_exclude ? "updated" : "counted", program.name));
  }
}

// Elements of a block are of one row. Where a tensor lacks a buffer of blocks, it is another's that
// they are for.
void check_blocks(const Program& program, const TensorSpec& spec, size_t t) {
  if (spec.row_count() < 2) return;
  int32_t block = 1;
  bool lacks = false;
  for (const Buffer& b : program.buffers) {
    if (b.block == 1 || b.is_square()) continue;
    if (b.is_of(spec.element_count())) {
      block = std::max(block, b.block);
    } else {
      lacks = true;
    }
  }
  for (const Inst& inst : program.insts) {
    if (!lacks && !inst.type.is_square()) block = std::max(block, inst.type.block);
  }
  if (spec.column_count() % static_cast<uint64_t>(block) == 0) return;
  throw Error(ErrorKind::bind,
              fmt::format("tensor {} '{}' has rows of {}, which are no whole blocks of {}, and "
                          "step @{} has values of rows and of such blocks: keep in f32 what is in "
                          "blocks, by a step of such tensors' own",
                          t, spec.name.substr(0, 80), spec.column_count(), block, program.name));
}

// Where it is not all of its tensor, a shard has whole squares.
void check_squares(const Program& program, const TensorSpec& spec, size_t index) {
  uint64_t square = kSquareSide * spec.column_count();
  bool ends = spec.offset + spec.size == spec.element_count();
  if (spec.offset % square == 0 && (ends || spec.size % square == 0)) return;
  throw Error(
      ErrorKind::bind,
      fmt::format("tensor {} '{}' is a shard that is cut within {} rows of {}, and step @{} "
                  "has values of squares of them: cut it at multiples of {} elements",
                  index, spec.name.substr(0, 80), kSquareSide, spec.column_count(), program.name,
                  std::lcm(square, uint64_t{abi::kPieceElements})));
}

// A row's reduction is over all of it, and a column's.
void check_rows(const Program& program, const Layout& layout) {
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t squares = 0;
  for (size_t t = 0; has_rows(program) && t < layout.size(); ++t) {
    const TensorSpec& spec = layout.tensors()[t];
    rows += spec.row_count();
    columns += spec.own_columns();
    squares += square_count(spec.size, spec.column_count());
    if (spec.size == 0) continue;
    check_blocks(program, spec, t);
    if (has_columns(program) && (spec.offset != 0 || spec.size != spec.element_count())) {
      throw Error(
          ErrorKind::bind,
          fmt::format("tensor {} '{}' is a shard, and step @{} has values of columns, which "
                      "are of all its rows: give it whole tensors",
                      t, spec.name.substr(0, 80), program.name));
    }
    if (has_squares(program)) check_squares(program, spec, t);
    if (spec.offset % spec.column_count() == 0 && spec.size % spec.column_count() == 0) continue;
    throw Error(ErrorKind::bind,
                fmt::format("tensor {} '{}' is a shard that ends within a row, and step @{} has "
                            "values of rows: cut shards where both a row of {} and 16,384 elements "
                            "begin",
                            t, spec.name.substr(0, 80), program.name, spec.column_count()));
  }
  if (!has_columns(program)) columns = 0;
  if (!has_squares(program)) squares = 0;
  if (std::max({rows, columns, squares}) >> 32 != 0) {
    throw Error(ErrorKind::bind,
                fmt::format("the tensors have {} rows, {} columns and {} squares, and step @{} "
                            "keeps values of them: there may be 2^32 - 1",
                            rows, columns, squares, program.name));
  }
}

// A count of elements that only looks right is worse than none.
void check_full_sizes(const Program& program, const Layout& layout) {
  check_rows(program, layout);
  bool counts = std::any_of(program.insts.begin(), program.insts.end(), [](const Inst& inst) {
    return inst.op == Op::element_count || inst.op == Op::column_count;
  });
  counts |= tensor_classes(program).size() > 1;
  for (size_t t = 0; counts && t < layout.size(); ++t) {
    const TensorSpec& spec = layout.tensors()[t];
    if (spec.offset == 0 || spec.full_size != 0) continue;
    throw Error(ErrorKind::bind,
                fmt::format("tensor {} '{}' is a shard, and step @{} asks how many elements its "
                            "tensor has: say so in full_size",
                            t, spec.name.substr(0, 80), program.name));
  }
}

}  // namespace

Step::Impl::Impl(Program given, Layout layout, const Device& where, const StepOptions& wanted)
    : program(std::move(given)), device(where), options(wanted) {
  ForkWatch watch;
  verify(program);
  bool shared = std::any_of(program.states.begin(), program.states.end(),
                            [](const State& s) { return s.shared; });
  if (shared && options.scaler == nullptr) {
    throw Error(ErrorKind::bind, fmt::format("step @{} has shared states: pass a LossScaler as "
                                             "StepOptions::scaler",
                                             program.name));
  }
  if (options.stats_ring < 1 || options.stats_ring > 65536) {
    throw Error(ErrorKind::usage,
                fmt::format("StepOptions::stats_ring keeps 1 to 65,536 steps, not "
                            "{}",
                            options.stats_ring));
  }
  if (options.form > Form::unfused) {
    throw Error(ErrorKind::usage, "StepOptions::form is none of fused, split and unfused");
  }
  check_tensor_flags(program, layout);
  check_full_sizes(program, layout);
  int gradient = program.find_buffer(options.gradient);
  if (gradient >= 0 && !program.buffers[static_cast<size_t>(gradient)].is_of_all()) {
    throw Error(ErrorKind::bind,
                fmt::format("@{} is the gradient, which tensors of every size have: leave out "
                            "`from` and `below`",
                            options.gradient));
  }
  bool interpreted = override_form(device, options);
  recorder = Recorder::from_environment();
  backend = make_backend(device, interpreted);
  plan = std::make_unique<StepPlan>(program, std::move(layout), options.form, options.observe);
  begins_somehow_ = std::any_of(program.buffers.begin(), program.buffers.end(),
                                [](const Buffer& b) { return b.init != Buffer::Init::none; });
  int window = program.find_state("micro_batches");
  if (window >= 0 && program.states[static_cast<size_t>(window)].shared) {
    closes_windows_ = program.find_arg("accumulation") >= 0;
    if (!closes_windows_) opens_windows_ = options.scaler->shared().open_windows();
  }
  allocate();
  initialise_states(0, States::all, nullptr);
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
  if (options.scaler != nullptr) options.scaler->shared().wait();
}

size_t Step::Impl::block_bytes() const {
  size_t own = backend->table_bytes(plan->kernels(), plan->tables);
  return own == 0 ? plan->workspace.bytes : plan->tables_offset() + own;
}

// Memory, binding, argument shape and names for the current plan.
void Step::Impl::allocate() {
  block = std::make_unique<WorkspaceBlock>(block_bytes(), options.allocator, backend->memory());
  binding = std::make_unique<Binding>(plan->variant.program, plan->layout, plan->tables,
                                      options.gradient, backend->memory());
  shape = std::make_shared<Args::Shape>(program, plan->layout, options.check_args);
  if (options.scaler != nullptr) options.scaler->shared().serve(backend->pending());
  for (size_t i = 0; i < program.states.size(); ++i) {
    const State& s = program.states[i];
    states_.push_back(s.shared ? options.scaler->shared().attach(s, backend->memory())
                               : block->base() + plan->workspace.states[i]);
  }
  name_ranges();
  observed_.assign(plan->layout.size(), 0);
}

// append() makes records of another width where there are reports of tensors or groups.
void Step::Impl::fit_ring() {
  size_t reports = report_count(plan->kernels(), plan->tables);
  if (ring && ring->reports() == reports) return;
  ring = std::make_unique<StatsRing>(reports, static_cast<size_t>(options.stats_ring));
}

// A graph holds the addresses of the step's tables and blocks, and the tables those of the arrays.
void Step::Impl::refuse_in_live_graph(std::string_view what) const {
  if (!backend->in_live_graph()) return;
  throw Error(ErrorKind::usage,
              fmt::format("{} while a captured graph of this step is alive, whose replays would go "
                          "wrong: destroy the graph and its executables first, and capture anew "
                          "afterwards",
                          what));
}

// "stepfuse adamw fused f16,f32,f32,f32": recipe, form, and the storage types of each signature.
void Step::Impl::name_ranges() {
  range_name = fmt::format("stepfuse {} {}", program.name, name(options.form));
  for (const Signature& signature : plan->variant.signatures) {
    for (size_t b = 0; b < signature.size(); ++b) {
      range_name += fmt::format("{}{}", b == 0 ? " " : ",", name(signature[b]));
    }
  }
  observe_name_ = range_name + " observe";
  reduce_name_ = range_name + " reduce";
}

void Step::Impl::prepare() {
  ForkWatch watch;
  Busy busy(*this);
  NvtxRange range(nvtx, (range_name + " prepare").c_str());
  refuse_in_live_graph("prepare()");
  prepared_ = false;
  backend->collect(*ring, true, nullptr);  // what was reported of before
  report = {};
  report.passes_ms = plan->passes_ms;
  auto start = std::chrono::steady_clock::now();
  backend->prepare(plan->variant, options.observe, report);
  attach();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.prepare_ms = took.count();
  std::fill(observed_.begin(), observed_.end(), uint8_t{0});
  prepared_ = true;
}

void Step::Impl::attach() {
  backend->attach(
      plan->variant, plan->tables,
      {&plan->workspace, block->base(), block->base() + plan->tables_offset(), states_});
}

void Step::Impl::set_group(size_t tensor, int group) {
  Busy busy(*this);
  refuse_in_live_graph("set_group()");
  plan->layout.set_group(tensor, group);
  plan->tables.set_group(tensor, static_cast<uint32_t>(group));
  binding->recheck();  // tied tensors are of one group
  std::fill(observed_.begin(), observed_.end(), uint8_t{0});
  if (!prepared_) return;
  backend->collect(*ring, true, nullptr);
  wait();
  attach();
}

void Step::Impl::bind(std::string_view buffer, std::span<void* const> pointers) {
  Busy busy(*this);
  if (binding->differs(program.find_buffer(buffer), pointers)) {
    refuse_in_live_graph(fmt::format("@{} is bound to other arrays", buffer.substr(0, 80)));
  }
  if (!binding->bind(buffer, pointers)) return;
  tables_changed_ = true;
  // Which tensors are one may have changed with it.
  std::fill(observed_.begin(), observed_.end(), uint8_t{0});
}

// Initial values of the states of tensors [first_tensor, end), and of all others if it is 0.
void Step::Impl::initialise_states(size_t first_tensor, States which, Stream stream) {
  for (size_t i = 0; i < program.states.size(); ++i) {
    const State& s = program.states[i];
    if (which == States::written && !writes_state(program, i)) continue;  // a seed is the caller's
    if (s.shared || (first_tensor > 0 && s.type.domain < Domain::tensor)) continue;
    size_t bytes = size_of(s.type.dtype);
    size_t count = member_count(s.type.domain, plan->layout);
    std::vector<char> values(count * bytes);
    for (size_t m = 0; m < count; ++m) store_bits(&values[m * bytes], s.type.dtype, s.initial);
    if (bool TensorSpec::* flag = tensor_flag(s)) {
      for (size_t m = 0; m < count; ++m) values[m] = plan->layout.tensors()[m].*flag ? 1 : 0;
    }
    size_t first = first_tensor;
    if (s.type.domain > Domain::tensor) {
      first = 0;
      for (size_t t = 0; t < first_tensor; ++t) {
        const TensorSpec& spec = plan->layout.tensors()[t];
        first += s.type.domain == Domain::row ? spec.row_count() : spec.own_columns();
      }
    }
    size_t skip = first * bytes;
    backend->memory()->copy_to_device(static_cast<char*>(states_[i]) + skip, values.data() + skip,
                                      values.size() - skip, stream);
  }
}

// Of tensors [first_tensor, end): their states and arrays; with 0, everything.
void Step::Impl::init_state(size_t first_tensor, Stream stream) {
  size_t total = plan->layout.size();
  if (first_tensor > total) {
    throw Error(ErrorKind::usage,
                fmt::format("init_tensors({}): the layout has {} tensors", first_tensor, total));
  }
  if (first_tensor > initialised_) {
    throw Error(ErrorKind::usage, fmt::format("init_tensors({}): the tensors from {} on have no "
                                              "initial values yet either",
                                              first_tensor, initialised_));
  }
  std::optional<Program> init = make_init_program(program);
  {
    Busy busy(*this);
    binding->check_complete();
    wait();
    initialised_ = first_tensor;  // should the rest fail
    initialise_states(first_tensor, States::written, stream);
  }
  if (!init || first_tensor == total) {
    initialised_ = total;
    return;
  }
  Impl step(*init, init_layout(*init, plan->layout, first_tensor), device,
            {.allocator = options.allocator, .gradient = ""});
  step.recorder.reset();  // it is no step of the caller's
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
  if (!prepared_) {
    throw Error(ErrorKind::usage, "call prepare() before the first run: run() never compiles");
  }
  binding->check_complete();
  if (initialised_ < plan->layout.size() && begins_somehow_) {
    throw Error(
        ErrorKind::usage,
        fmt::format(
            "tensor {} is not initialised: call init_state() or load_checkpoint() before the "
            "first run, init_tensors() after append(), or adopt_state() to keep what its "
            "arrays contain",
            initialised_));
  }
  if (closes_windows_ && !options.scaler->shared().counts_micro_batches()) {
    throw Error(
        ErrorKind::usage,
        fmt::format("step @{} closes accumulation windows, but no step that opens them is on "
                    "its LossScaler: make accumulate and this step with the same "
                    "StepOptions::scaler (or count yourself: scaler.write(\"micro_batches\", "
                    "n) before each run)",
                    program.name));
  }
  closes_windows_ = false;  // checked
}

void Step::Impl::adopt_state() {
  initialised_ = plan->layout.size();
  if (options.scaler != nullptr) options.scaler->shared().forget_changes();
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
  Layout layout = plan->layout;
  layout.add(std::move(tensor));
  check_tensor_flags(program, layout);
  check_full_sizes(program, layout);
  StepParts next;
  next.plan = std::make_unique<StepPlan>(program, std::move(layout), options.form, options.observe);
  backend->collect(*ring, true, nullptr);  // what the old block still has to report
  wait();
  std::vector<std::vector<char>> saved(program.states.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    const State& s = program.states[i];
    if (s.shared) continue;
    saved[i].resize(member_count(s.type.domain, plan->layout) * size_of(s.type.dtype));
    backend->memory()->copy_to_host(saved[i].data(), states_[i], saved[i].size(), nullptr);
  }
  // Nothing of the old parts is given up before all of the new ones are there.
  StepParts& parts = *this;
  auto old_shape = shape;
  std::swap(parts, next);
  try {
    allocate();
    initialise_states(0, States::all, nullptr);
    for (size_t i = 0; i < saved.size(); ++i) {
      backend->memory()->copy_to_device(states_[i], saved[i].data(), saved[i].size(), nullptr);
    }
    fit_ring();
  } catch (...) {
    std::swap(parts, next);
    shape = std::move(old_shape);
    throw;
  }
}

}  // namespace stepfuse
