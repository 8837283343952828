// Checkpoints of a step. Knows the runtime's parts.
#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/checkpoint.hpp>

#include "runtime/loss_scaler.hpp"
#include "runtime/safetensors.hpp"
#include "runtime/step_impl.hpp"

namespace stepfuse {
namespace {

constexpr const char* kFormat = "stepfuse-checkpoint";
constexpr const char* kVersion = "1";

// One piece of a checkpoint: where it lives on the device and what it is called in the file.
struct Piece {
  std::string name;
  DType dtype;
  uint64_t elements;
  void* device;
};

// A state that the step only reads was not learned: it is the layout's or the caller's.
bool is_written(const Program& p, size_t state) {
  return std::any_of(p.insts.begin(), p.insts.end(), [&](const Inst& inst) {
    return inst.op == Op::write && inst.slot == static_cast<int32_t>(state);
  });
}

std::vector<Piece> pieces_of(const Step::Impl& step) {
  std::vector<Piece> pieces;
  const Program& p = step.program;
  for (size_t i = 0; i < p.states.size(); ++i) {
    const State& s = p.states[i];
    if (s.report || (!s.shared && !is_written(p, i))) continue;
    pieces.push_back({fmt::format("{}.{}", s.shared ? "scaler" : "state", s.name), s.type.dtype,
                      member_count(s.type.domain, step.plan->layout), step.state_pointer(i)});
  }
  const StepTables& tables = step.plan->tables;
  for (size_t b = 0; b < p.buffers.size(); ++b) {
    if (p.buffers[b].init == Buffer::Init::none) continue;
    for (size_t t = 0; t < step.plan->layout.size(); ++t) {
      uint64_t size = step.plan->layout.tensors()[t].size;
      if (size > 0 && tables.pointer(t, b) == nullptr) {
        throw Error(ErrorKind::bind,
                    fmt::format("@{} is not bound: a checkpoint needs it", p.buffers[b].name));
      }
      pieces.push_back({fmt::format("buffer.{}.{}", p.buffers[b].name, t), tables.dtype(t, b), size,
                        tables.pointer(t, b)});
    }
  }
  return pieces;
}

std::string layout_text(const Layout& layout) {
  std::string text;
  for (const TensorSpec& t : layout.tensors()) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", t.size, t.offset);
  }
  return text;
}

void check_metadata(const TensorFile& file, const std::string& path, const Step::Impl& step) {
  auto expect = [&](const char* key, const std::string& value, std::string_view what) {
    auto it = file.metadata.find(key);
    if (it != file.metadata.end() && it->second == value) return;
    throw Error(ErrorKind::usage,
                fmt::format("{}: {} (its {} is '{}')", path, what, key,
                            it == file.metadata.end() ? "missing" : it->second.substr(0, 80)));
  };
  expect("format", kFormat, "not a stepfuse checkpoint");
  expect("version", kVersion, "made by another version of stepfuse");
  expect("step", step.program.name,
         fmt::format("a checkpoint of another step than @{}", step.program.name));
  expect("layout", layout_text(step.plan->layout), "a checkpoint of another layout");
}

}  // namespace

void save_checkpoint(const std::string& path, const Step& step) {
  const Step::Impl& impl = step.impl();
  TensorFile file;
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"step", impl.program.name},
                   {"layout", layout_text(impl.plan->layout)}};
  impl.wait();
  for (const Piece& p : pieces_of(impl)) {
    NamedArray array{p.dtype, {p.elements}, std::string(p.elements * size_of(p.dtype), '\0')};
    impl.backend->memory()->copy_to_host(array.bytes.data(), p.device, array.bytes.size(), nullptr);
    file.arrays.emplace(p.name, std::move(array));
  }
  write_tensor_file(path, file);
}

void load_checkpoint(const std::string& path, Step& step) {
  Step::Impl& impl = step.impl();
  TensorFile file = read_tensor_file(path);
  check_metadata(file, path, impl);
  std::vector<Piece> pieces = pieces_of(impl);
  for (const Piece& p : pieces) file.at(p.name, p.dtype, p.elements);
  if (file.arrays.size() != pieces.size()) {
    throw Error(ErrorKind::usage,
                fmt::format("{}: it holds {} arrays; step @{} has {}", path, file.arrays.size(),
                            impl.program.name, pieces.size()));
  }
  impl.wait();
  for (const Piece& p : pieces) {
    const std::string& bytes = file.arrays.at(p.name).bytes;
    impl.backend->memory()->copy_to_device(p.device, bytes.data(), bytes.size(), nullptr);
  }
}

}  // namespace stepfuse
