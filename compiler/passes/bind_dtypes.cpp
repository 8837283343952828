// Pass: a buffer with the same storage type in all signatures becomes concrete. Knows ir and signatures.
#include <fmt/format.h>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/rewriter.hpp"

namespace stepfuse {
namespace {

// Returns the storage types that `signatures` use for buffer `b`.
DTypeSet used_types(const Program& p, size_t b, std::span<const Signature> signatures) {
  DTypeSet used;
  for (const Signature& s : signatures) {
    if (s.size() != p.buffers.size()) {
      throw Error(ErrorKind::compile,
                  fmt::format("a signature names {} storage types, but step @{} has {} buffers",
                              s.size(), p.name, p.buffers.size()));
    }
    if (!can_be(p.buffers[b], s[b])) {
      throw Error(ErrorKind::compile,
                  fmt::format("buffer @{} is bound to {}, which its declaration does not list",
                              p.buffers[b].name, name(s[b])));
    }
    if (s[b] != DType::absent) used = used | s[b];
  }
  return used.empty() ? p.buffers[b].dtypes : used;  // none of these tensors has the buffer
}

}  // namespace

Program bind_dtypes(const Program& program, std::span<const Signature> signatures) {
  if (signatures.empty()) return program;
  Rewriter r(program);
  std::vector<Buffer>& buffers = r.declarations().buffers;
  for (size_t b = 0; b < buffers.size(); ++b) {
    buffers[b].dtypes = used_types(program, b, signatures);
  }
  for (ValueId v = 0; v < program.size(); ++v) {
    Inst inst = r.remapped(v);
    if (inst.type.dtype == DType::bound) {
      DTypeSet left = buffers[static_cast<size_t>(inst.type.buffer)].dtypes;
      if (left.size() == 1) inst.type = inst.type.of(left.only());
    }
    r.emit(v, inst);
  }
  return r.finish();
}

}  // namespace stepfuse
