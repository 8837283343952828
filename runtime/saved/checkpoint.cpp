// Saves and loads checkpoints of a step. Knows the runtime's parts.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <stepfuse/checkpoint.hpp>

#include "runtime/files/safetensors.hpp"
#include "runtime/saved/checkpoint_names.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/loss_scaler.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {
namespace {

constexpr const char* kFormat = "stepfuse-checkpoint";
constexpr const char* kVersion = "2";

constexpr size_t kPortion = size_t{4} << 20;  // bytes in memory at a time

// One array of a checkpoint: its address on the device and its name in the file.
struct Piece {
  ArrayHead head;
  std::string owner;  // the state or buffer that it belongs to
  char* device;
  uint64_t bytes() const { return head.elements * size_of(head.dtype); }
};

bool is_used(const Program& p, size_t state, Op op) {
  return std::any_of(p.insts.begin(), p.insts.end(), [&](const Inst& inst) {
    return inst.op == op && inst.slot == static_cast<int32_t>(state);
  });
}

// Whether the state seeds random numbers: a resumed run must draw the numbers that the saved one would have
// drawn.
bool is_drawn_from(const Program& p, size_t state) {
  auto reads = [&](ValueId v) {
    return p[v].op == Op::read && p[v].slot == static_cast<int32_t>(state);
  };
  return std::any_of(p.insts.begin(), p.insts.end(), [&](const Inst& inst) {
    return inst.op == Op::random && std::any_of(inst.operands.begin(), inst.operands.end(), reads);
  });
}

// A checkpoint has the states that the next step reads. A state that the step only reads belongs to the
// layout or the caller and is left out, unless it is a seed. A state that the step only writes describes
// the last step.
bool belongs(const Program& p, size_t state) {
  const State& s = p.states[state];
  return !s.report && is_used(p, state, Op::read) &&
         (s.shared || is_used(p, state, Op::write) || is_drawn_from(p, state));
}

std::vector<Piece> pieces_of(const Step::Impl& step) {
  std::vector<Piece> pieces;
  const Program& p = step.program;
  for (size_t i = 0; i < p.states.size(); ++i) {
    const State& s = p.states[i];
    if (!belongs(p, i)) continue;
    pieces.push_back({{fmt::format("{}.{}", s.shared ? "scaler" : "state", s.name), s.type.dtype,
                       member_count(s.type.at, step.plan->layout)},
                      s.name,
                      static_cast<char*>(step.state_pointer(i))});
  }
  const StepTables& tables = step.plan->tables;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].init == Buffer::Init::none) continue;
    for (size_t t = 0; t < step.plan->layout.size(); ++t) {
      if (tables.dtype(t, b) == DType::absent) continue;
      const TensorSpec& spec = step.plan->layout.tensors()[t];
      uint64_t size = p.buffers[b].count(spec.elements, spec.column_count());
      if (size > 0 && tables.pointer(t, b) == nullptr) {
        throw Error(ErrorKind::bind,
                    fmt::format("@{} is not bound: a checkpoint needs it", p.buffers[b].name));
      }
      pieces.push_back(
          {{fmt::format("buffer.{}.{}", p.buffers[b].name, t), tables.dtype(t, b), size},
           p.buffers[b].name,
           static_cast<char*>(tables.pointer(t, b))});
    }
  }
  return pieces;
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& t = layout.tensors()[i];
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", t.elements, t.offset);
    if (t.id.value_or(i) != i) text += fmt::format("#{}", *t.id);
  }
  return text;
}

// Returns the sizes of the full tensors if some are shards, as in "50000 33". Loading ignores the list;
// converting needs it.
std::string full_sizes_text(const Layout& layout) {
  std::string text;
  bool shards = false;
  for (const TensorSpec& t : layout.tensors()) {
    shards |= t.element_count() != t.offset + t.elements;
    text += fmt::format("{}{}", text.empty() ? "" : " ", t.element_count());
  }
  return shards ? text : "";
}

void expect(const TensorReader& file, const char* key, const std::string& value,
            std::string_view what) {
  auto it = file.metadata().find(key);
  if (it != file.metadata().end() && it->second == value) return;
  throw Error(ErrorKind::usage,
              fmt::format("{}: {} (its {} is '{}')", file.path(), what, key,
                          it == file.metadata().end() ? "missing" : it->second.substr(0, 80)));
}

void check_metadata(const TensorReader& file, const Step::Impl& step) {
  check_is_checkpoint(file);
  expect(file, "step", step.program.name,
         fmt::format("a checkpoint of a different step than @{}", step.program.name));
  expect(file, "layout", layout_text(step.plan->layout), "a checkpoint of a different layout");
}

// Returns the flags with which `stepfuse convert` makes a moment as the step keeps it.
std::string flags_for(const Program& p, std::string_view moment) {
  for (const Buffer& b : p.buffers) {
    std::string array = fmt::format("buffer.{}.0", b.name);
    BufferName at = buffer_name(array);
    if (at.moment != moment || at.form.empty()) continue;
    std::string below = b.from == 0 ? "" : fmt::format(" --moments-below={}", b.from);
    return fmt::format("--moments='{}={}'{}", moment, at.form, below);
  }
  return fmt::format("--moments='{}=f32'", moment);
}

// Throws if the file keeps a moment in a different form than the step; the message says how to convert it.
void check_form(const TensorReader& file, const Step::Impl& step, const std::string& array) {
  BufferName wanted = buffer_name(array);
  auto shown = [](std::string_view form) { return form.empty() ? "an array of numbers" : form; };
  for (const auto& [name, stored] : file.arrays()) {
    BufferName found = buffer_name(name);
    if (wanted.moment.empty() || found.moment != wanted.moment || found.form == wanted.form)
      continue;
    throw Error(
        ErrorKind::usage,
        fmt::format(
            "{}: it keeps '{}' as {}, step @{} as {}; make the step with the --moments that it "
            "was saved with, or convert it: stepfuse convert {} NEW {}",
            file.path(), found.moment, shown(found.form), step.program.name, shown(wanted.form),
            file.path(), flags_for(step.program, wanted.moment)));
  }
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns "ema" for "buffer.ema.3", and "scale" for "scaler.scale".
std::string_view owner_of(std::string_view array) {
  bool buffer = array.starts_with("buffer.");
  array.remove_prefix(std::min(array.size(), array.find('.') + 1));
  return buffer ? array.substr(0, array.rfind('.')) : array;
}

// Returns the pieces to load, after checking that the file lacks none and has no others.
std::vector<Piece> matched(const TensorReader& file, const Step::Impl& step,
                           const LoadOptions& options) {
  auto fail = [&](std::string_view what, std::string_view array, std::string_view option) {
    bool scaler = array.starts_with("scaler.");
    throw Error(ErrorKind::usage,
                fmt::format("{}: it {} '{}'; {}, or name \"{}\" in LoadOptions::{}", file.path(),
                            what, array,
                            scaler ? "make the step with the loss scaling that it was saved with"
                                   : "make the step with the options that it was saved with",
                            owner_of(array), option));
  };
  std::vector<Piece> found;
  for (Piece& p : pieces_of(step)) {
    if (file.arrays().contains(p.head.name)) {
      file.at(p.head.name, p.head.dtype, p.head.elements);
      found.push_back(std::move(p));
    } else if (!contains(options.optional, p.owner)) {
      check_form(file, step, p.head.name);
      fail(fmt::format("lacks an array of step @{},", step.program.name), p.head.name, "optional");
    }
  }
  std::set<std::string_view> known;
  for (const Piece& p : found) known.insert(p.head.name);
  for (const auto& [name, array] : file.arrays()) {
    if (known.contains(name) || contains(options.ignored, owner_of(name))) continue;
    fail(fmt::format("holds an array that step @{} does not have,", step.program.name),
         std::string_view(name).substr(0, 80), "ignored");
  }
  return found;
}

}  // namespace

void check_is_checkpoint(const TensorReader& file) {
  expect(file, "format", kFormat, "not a stepfuse checkpoint");
  expect(file, "version", kVersion, "made by a different version of stepfuse");
}

void save_checkpoint(const std::string& path, const Step& step) {
  const Step::Impl& impl = Internals::of(step);
  std::vector<Piece> pieces = pieces_of(impl);
  std::vector<ArrayHead> heads;
  for (const Piece& p : pieces) heads.push_back(p.head);
  TensorMetadata metadata = {{"format", kFormat},
                             {"version", kVersion},
                             {"step", impl.program.name},
                             {"layout", layout_text(impl.plan->layout)},
                             {"index", std::to_string(impl.next_index())}};
  std::string full_sizes = full_sizes_text(impl.plan->layout);
  if (!full_sizes.empty()) metadata["full_sizes"] = full_sizes;
  TensorWriter file(path, metadata, heads);
  std::vector<char> portion(kPortion);
  impl.wait();
  for (const Piece& p : pieces) {
    for (uint64_t at = 0; at < p.bytes(); at += portion.size()) {
      size_t n = std::min<uint64_t>(portion.size(), p.bytes() - at);
      impl.backend->memory()->copy_to_host(portion.data(), p.device + at, n, {});
      file.write(portion.data(), n);
    }
  }
  file.finish();
}

void load_checkpoint(const std::string& path, Step& step, const LoadOptions& options) {
  Step::Impl& impl = Internals::of(step);
  Step::Impl::Busy busy(impl);
  TensorReader file(path);
  check_metadata(file, impl);
  std::vector<Piece> pieces = matched(file, impl, options);
  uint64_t index = file.number("index");
  file.check_digest();
  std::vector<char> portion(kPortion);
  impl.wait();
  for (const Piece& p : pieces) {
    const TensorReader::Array& array = file.at(p.head.name);
    for (uint64_t at = 0; at < p.bytes(); at += portion.size()) {
      size_t n = std::min<uint64_t>(portion.size(), p.bytes() - at);
      file.read(array, at, portion.data(), n);
      impl.backend->memory()->copy_to_device(p.device + at, portion.data(), n, {});
    }
  }
  impl.continue_at(index);
  if (impl.scaler != nullptr) impl.scaler->forget_changes();
  if (pieces.size() == pieces_of(impl).size()) impl.adopt_state();
}

}  // namespace stepfuse
