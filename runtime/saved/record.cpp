// Captures, replays and compares recorded steps. Knows the runtime's parts.
#include "runtime/saved/record.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

#include "ir/text/words.hpp"
#include "runtime/process/say.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/loss_scaler.hpp"
#include "runtime/step/numbers.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {
namespace {

size_t members(const Type& type, const Layout& layout) { return member_count(type.at, layout); }

std::string place(const Layout& layout, size_t tensor) {
  return fmt::format("tensor {} '{}'", tensor, layout.tensors()[tensor].name);
}

// Returns the line that stores to a buffer or writes a state.
std::string effect_line(const Program& p, Op op, size_t slot) {
  for (ValueId v = 0; v < p.size(); ++v) {
    if (p[v].op == op && p[v].slot == static_cast<int32_t>(slot)) return print_inst(p, v);
  }
  return "nothing stores it";
}

void note(std::optional<Difference>& d, Bits a, Bits b, DType t, const std::string& what,
          const std::string& line) {
  if (canonical_nan(a, t) == canonical_nan(b, t)) return;
  if (!d) d = Difference{what, line, literal_text(a, t), literal_text(b, t), 0};
  ++d->count;
}

// Records hold gradients and weights, so only the user may read a folder that is made for them.
void make_private_folder(const std::string& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder);
  if (!path.has_filename()) path = path.parent_path();  // removes a slash at the end
  std::filesystem::create_directories(path.parent_path());
  if (::mkdir(path.c_str(), 0700) == 0 || std::filesystem::is_directory(path)) return;
  throw Error(
      ErrorKind::usage,
      fmt::format(
          "cannot make the folder {}: it is a file, or the folder around it cannot be written",
          folder));
}

}  // namespace

StepRecord capture(const Step::Impl& step, const Args& args) {
  StepRecord r;
  r.program = step.program;
  r.form = step.options.form;
  r.index = step.next_index();
  r.gradient = step.options.gradient;
  const StepTables& tables = step.plan->tables;
  for (size_t t = 0; t < step.plan->layout.size(); ++t) {
    TensorSpec spec = step.plan->layout.tensors()[t];
    for (size_t b = 0; b < r.program.buffers.size(); ++b) {
      const Buffer& buffer = r.program.buffers[b];
      bool absent = tables.dtype(t, b) == DType::absent;
      spec.dtypes[buffer.name] = absent ? buffer.dtypes.only() : tables.dtype(t, b);
    }
    r.present.push_back((tables.tensors[t].flags & abi::kPresent) != 0 ? 1 : 0);
    spec.present_by_gradient = r.present[t] == 0;  // A replay gives an absent tensor no gradient.
    r.layout.add(std::move(spec));
  }
  DeviceMemory& memory = *step.backend->memory();
  for (size_t b = 0; b < r.program.buffers.size(); ++b) {
    std::vector<std::string> arrays(r.layout.size());
    for (size_t t = 0; t < arrays.size(); ++t) {
      const void* p = tables.pointer(t, b);
      bool absent = r.present[t] == 0 && r.program.buffers[b].name == r.gradient;
      if (p == nullptr || absent) continue;
      const TensorSpec& spec = r.layout.tensors()[t];
      if (spec.elements == 0) continue;
      arrays[t].resize(r.program.buffers[b].count(spec.elements, spec.column_count()) *
                       size_of(tables.dtype(t, b)));
      memory.copy_to_host(arrays[t].data(), p, arrays[t].size(), {});
    }
    r.buffers.push_back(std::move(arrays));
  }
  for (const State& s : r.program.states) r.states.push_back(step.read_state(s.name, {}));
  for (size_t i = 0; i < r.program.args.size(); ++i) {
    std::vector<Bits> values;
    for (size_t g = 0; g < members(r.program.args[i].type, r.layout); ++g) {
      values.push_back(step.arg_bits(args, i, g));
    }
    r.args.push_back(std::move(values));
  }
  return r;
}

StepRecord replay(const StepRecord& record, const Device& device, Form form) {
  StepRecord out = record;
  LossScaler scaler;
  StepOptions options{.form = form, .scaler = &scaler, .gradient = record.gradient};
  Step step(record.program, record.layout, device, options);
  Step::Impl& impl = Internals::of(step);
  impl.recorder.reset();
  std::vector<void*> gradients;
  for (size_t b = 0; b < out.buffers.size(); ++b) {
    std::vector<void*> pointers;
    for (std::string& bytes : out.buffers[b])
      pointers.push_back(bytes.empty() ? nullptr : bytes.data());
    if (static_cast<int>(b) == impl.plan->binding->gradient_buffer())
      gradients = pointers;
    else
      step.bind_raw(out.program.buffers[b].name, pointers);
  }
  for (size_t t = 0; t < gradients.size(); ++t) {
    if (!out.present[t]) gradients[t] = nullptr;
  }
  step.prepare();
  step.adopt_state();
  if (Internals::of(scaler)->has("micro_batches")) scaler.write("micro_batches", 0);
  for (size_t i = 0; i < out.states.size(); ++i) {
    impl.write_state(out.program.states[i].name, out.states[i], {});
  }
  Args args = step.make_args();
  for (size_t i = 0; i < out.args.size(); ++i) {
    for (size_t g = 0; g < out.args[i].size(); ++g) impl.set_arg_bits(args, i, g, out.args[i][g]);
  }
  step.run(gradients, args);
  for (size_t i = 0; i < out.states.size(); ++i) {
    out.states[i] = impl.read_state(out.program.states[i].name, {});
  }
  return out;
}

std::optional<Difference> first_difference(const StepRecord& a, const StepRecord& b) {
  std::optional<Difference> d;
  const Program& p = a.program;
  for (size_t k = 0; k < a.buffers.size(); ++k) {
    for (size_t t = 0; t < a.layout.size(); ++t) {
      DType type = a.layout.tensors()[t].dtypes.at(p.buffers[k].name);
      const std::string& x = a.buffers[k][t];
      const std::string& y = b.buffers[k][t];
      if (x == y) continue;
      for (size_t i = 0; i < x.size() / size_of(type); ++i) {
        note(d, load_bits(&x[i * size_of(type)], type), load_bits(&y[i * size_of(type)], type),
             type, fmt::format("@{} of {} element {}", p.buffers[k].name, place(a.layout, t), i),
             effect_line(p, Op::store, k));
      }
    }
  }
  for (size_t s = 0; s < a.states.size(); ++s) {
    const Type& type = p.states[s].type;
    for (size_t m = 0; m < a.states[s].size(); ++m) {
      std::string where =
          type.at == per::step ? "" : fmt::format(" of {} {}", info(type.at).name, m);
      note(d, a.states[s][m], b.states[s][m], type.dtype,
           fmt::format("state @{}{}", p.states[s].name, where), effect_line(p, Op::write, s));
    }
  }
  return d;
}

std::optional<std::string> first_nonfinite(const StepRecord& r) {
  int slot = r.program.find_buffer(r.gradient);
  if (slot < 0) return std::nullopt;
  for (size_t t = 0; t < r.layout.size(); ++t) {
    DType type = r.layout.tensors()[t].dtypes.at(r.gradient);
    const std::string& bytes = r.buffers[static_cast<size_t>(slot)][t];
    if (!r.present[t] || !is_float(type)) continue;
    for (size_t i = 0; i < bytes.size() / size_of(type); ++i) {
      Bits v = load_bits(&bytes[i * size_of(type)], type);
      std::string text = literal_text(canonical_nan(v, type), type);
      if (text == "nan" || text == "inf" || text == "-inf") {
        return fmt::format("{} element {} is {}", place(r.layout, t), i, text);
      }
    }
  }
  return std::nullopt;
}

std::optional<Recorder> Recorder::from_environment() {
  // A program with other rights than its caller's must not write files where the caller says.
  const char* text = ::secure_getenv("STEPFUSE_RECORD");
  if (text == nullptr || *text == '\0') return std::nullopt;
  Recorder recorder;
  std::string_view v = text;
  size_t colon = v.rfind(':');
  std::string_view when = colon == std::string_view::npos ? "" : v.substr(colon + 1);
  if (when.starts_with("step=") || when.starts_with("when=step=")) {
    std::string_view number = when.substr(when.rfind('=') + 1);
    recorder.wanted_ = parse_number<uint64_t>(number);
    if (!recorder.wanted_) {
      throw Error(ErrorKind::usage,
                  fmt::format("STEPFUSE_RECORD={}: step={} is not a number from 0 to 2^64 - 1",
                              text, number));
    }
  }
  bool is_known = when.empty() || recorder.wanted_ || when == "when=nonfinite";
  recorder.folder_ = v.substr(0, when.empty() ? v.size() : colon);
  if (!is_known || recorder.folder_.empty()) {
    throw Error(
        ErrorKind::usage,
        fmt::format("STEPFUSE_RECORD={}: write folder, folder:when=nonfinite or folder:step=N",
                    text));
  }
  return recorder;
}

template <class F>
void Recorder::guarded(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    say(fmt::format("stepfuse: STEPFUSE_RECORD={}: not recorded: {}", folder_, e.what()));
    pending_.reset();
    done_ = true;
  }
}

bool Recorder::before(const Step::Impl& step, const ArgSource& args, Stream stream) {
  if (done_ || (wanted_ && *wanted_ != step.next_index())) return false;
  guarded([&] {
    // Copies cannot be made while the stream is being captured.
    if (step.backend->memory()->is_capturing(stream)) return;
    step.wait();
    step.backend->memory()->copy_to_host(nullptr, nullptr, 0,
                                         stream);  // the gradients are written on this stream
    pending_ = capture(step, step.fetch_args(args, stream));
  });
  return pending_.has_value();
}

void Recorder::after(const Step::Impl& step, Stream stream) {
  guarded([&] {
    step.backend->collect(*step.ring, true, stream);
    std::optional<StepStats> stats = step.newest();
    bool hit = wanted_.has_value();
    for (std::string_view report : {"found_inf", "norm_overflow"}) {
      bool this_step = stats && stats->index == pending_->index;
      if (this_step && stats->find(report).value_or(0) != 0) hit = true;
    }
    if (hit) {
      done_ = true;
      const std::string& name = step.program.name;
      make_private_folder(folder_);
      std::string path = fmt::format("{}/{}-step{}.safetensors", folder_, name, pending_->index);
      save_record(path, *pending_);
      say(fmt::format(
          "stepfuse: recorded step {} of @{} in {}; look into it with: stepfuse replay {}",
          pending_->index, name, path, path));
    }
  });
  pending_.reset();
}

}  // namespace stepfuse
