// Tables from a layout. Knows the public API and fmt.
#include "runtime/tables.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ir/reduction.hpp"

namespace stepfuse {
namespace {

// Scratch arrays of different tensors do not share a cache line.
constexpr uint64_t kScratchAlignment = 64;

[[noreturn]] void fail(const TensorSpec& t, size_t index, const std::string& what) {
  throw Error(ErrorKind::bind,
              fmt::format("tensor {} '{}': {}", index, t.name.substr(0, 80), what));
}

Signature signature_of(const Program& p, const TensorSpec& t, size_t index) {
  for (const auto& [buffer, dtype] : t.dtypes) {
    if (p.find_buffer(buffer) < 0) {
      fail(t, index,
           fmt::format("it names a dtype for @{}, which step @{} does not have", buffer, p.name));
    }
  }
  Signature signature;
  for (const Buffer& b : p.buffers) {
    auto it = t.dtypes.find(b.name);
    if (it != t.dtypes.end()) {
      if (it->second >= DType::bound || !b.dtypes.contains(it->second)) {
        fail(t, index, fmt::format("@{} cannot be stored as {}", b.name, name(it->second)));
      }
      signature.push_back(it->second);
    } else if (b.dtypes.size() == 1) {
      signature.push_back(b.dtypes.only());
    } else {
      fail(t, index,
           fmt::format("@{} may have several storage types: name one in the tensor's "
                       "dtypes",
                       b.name));
    }
  }
  return signature;
}

void add_chunks(StepTables& tables, const TensorSpec& t, uint32_t tensor, uint32_t signature) {
  for (uint64_t begin = 0; begin < t.size; begin += kPieceElements) {
    abi::Chunk chunk{};
    chunk.tensor = tensor;
    chunk.signature = signature;
    chunk.length = static_cast<uint32_t>(std::min<uint64_t>(kPieceElements, t.size - begin));
    chunk.begin = begin;
    tables.chunks.push_back(chunk);
  }
}

}  // namespace

StepTables make_tables(const Program& program, const Layout& layout) {
  StepTables tables;
  tables.buffer_count = program.buffers.size();
  tables.pointers.resize(layout.size() * tables.buffer_count);
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& t = layout.tensors()[i];
    Signature signature = signature_of(program, t, i);
    auto it = std::find(tables.signatures.begin(), tables.signatures.end(), signature);
    auto number = static_cast<uint32_t>(it - tables.signatures.begin());
    if (it == tables.signatures.end()) tables.signatures.push_back(std::move(signature));
    tables.signature_of.push_back(number);

    abi::Tensor tensor{};
    tensor.group = static_cast<uint32_t>(t.group);
    tensor.flags = abi::kPresent;
    tensor.size = t.size;
    tensor.offset = t.offset;
    tensor.scratch_base = tables.scratch_elements;
    tables.tensors.push_back(tensor);
    tables.scratch_elements +=
        (t.size + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    tables.first_chunk.push_back(static_cast<uint32_t>(tables.chunks.size()));
    add_chunks(tables, t, static_cast<uint32_t>(i), number);
  }
  tables.first_chunk.push_back(static_cast<uint32_t>(tables.chunks.size()));
  tables.parts =
      Partitions(tables.chunks, tables.tensors, static_cast<uint32_t>(layout.group_count()));
  // A step over no tensors (a loss-scale update alone) still has a kernel.
  if (tables.signatures.empty()) {
    Signature any;
    for (const Buffer& b : program.buffers) any.push_back(b.dtypes.only());
    tables.signatures.push_back(std::move(any));
  }
  return tables;
}

}  // namespace stepfuse
