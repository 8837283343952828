// Builds the initialisation step. Knows ir and the layout.
//
// Initial values are in the program's text (`= 65536`, `= @weight`). This step stores them and runs on the device, so
// no backend has its own fill or conversion. It is a cached variant like any other.
#include "runtime/step/init_program.hpp"

#include <set>

#include "ir/program/builder.hpp"

namespace stepfuse {

std::optional<Program> make_init_program(const Program& program) {
  std::set<size_t> sources;
  std::vector<size_t> targets;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (b.init == Buffer::Init::none) continue;
    targets.push_back(i);
    if (b.init == Buffer::Init::copy) sources.insert(static_cast<size_t>(b.init_from));
  }
  if (targets.empty()) return std::nullopt;

  Builder b(program.name + ".init");
  std::vector<BufferRef> refs(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    bool target = buffer.init != Buffer::Init::none;
    bool source = sources.contains(i);
    if (!target && !source) continue;
    Access access = target && source ? Access::inout : target ? Access::out : Access::in;
    refs[i] = b.buffer(buffer.name, buffer.dtypes, access, buffer.at);
    b.only_of(refs[i], buffer.from, buffer.below);
  }
  Value zero = b.constant(DType::f32, 0);
  // A chain (`= @b`, where @b itself starts as zeros or a copy) takes @b's initial value, not its old
  // bytes.
  std::vector<Value> initial(program.buffers.size());
  for (size_t i : targets) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.init == Buffer::Init::zero) {
      DType t = buffer.dtypes.first();
      initial[i] = is_narrow_integer(t) ? b.constant(t, 0) : zero;
    } else {
      auto from = static_cast<size_t>(buffer.init_from);
      initial[i] = initial[from] ? initial[from] : b.cast(b.load(refs[from]), DType::f32);
    }
    Value stored = b.cast_to_buffer(initial[i], refs[i]);
    b.store(refs[i], stored);
  }
  return b.finish();
}

Layout init_layout(const Program& init, const Layout& layout, size_t first) {
  Layout out;
  for (size_t i = first; i < layout.size(); ++i) {
    const TensorSpec& t = layout.tensors()[i];
    TensorSpec spec{.name = t.name, .elements = t.elements, .full_elements = t.element_count()};
    for (const Buffer& b : init.buffers) {
      auto it = t.dtypes.find(b.name);
      if (it != t.dtypes.end()) spec.dtypes.insert(*it);
    }
    out.add(std::move(spec));
  }
  return out;
}

}  // namespace stepfuse
