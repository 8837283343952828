// Makes the tables from a layout. Knows the public API and fmt.
#include "runtime/tables/tables.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ir/semantics/reduction.hpp"

namespace stepfuse {
namespace {

// Scratch arrays of different tensors share neither a cache line nor a block.
constexpr uint64_t kScratchAlignment = kLargestBlock;

[[noreturn]] void fail(const TensorSpec& t, size_t index, const std::string& what) {
  throw Error(ErrorKind::bind,
              fmt::format("tensor {} '{}': {}", index, t.name.substr(0, 80), what));
}

}  // namespace

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
  return of_size(p, t.element_count(), std::move(signature));
}

void StepTables::add(abi::Tensor tensor, const Signature& types) {
  auto it = std::find(signatures.begin(), signatures.end(), types);
  auto signature = static_cast<uint32_t>(it - signatures.begin());
  if (it == signatures.end()) signatures.push_back(types);
  signature_of.push_back(signature);
  tensor.scratch_base = scratch_elements;
  scratch_elements += (tensor.size + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  bool has_rows = !lines.empty();
  auto number = static_cast<uint32_t>(tensors.size());
  for (uint64_t begin = 0; begin < tensor.size;) {
    // Cut where pieces of the tensor, or of its rows, begin: those of the full tensor if the offset is
    // a multiple of a piece.
    uint64_t position = has_rows ? begin % tensor.columns : begin;
    uint64_t left = has_rows ? tensor.columns - position : tensor.size;
    uint64_t to_border = kPieceElements - position % kPieceElements;
    auto length = static_cast<uint32_t>(std::min({to_border, left, tensor.size - begin}));
    chunks.push_back({number, signature, length, static_cast<uint32_t>(chunks.size()), begin});
    begin += length;
  }
  if (rows_in_order > 0) put_rows_in_order(first_chunk.back(), tensor.columns);
  first_chunk.push_back(static_cast<uint32_t>(chunks.size()));
  tensors.push_back(tensor);
  pointers.resize(tensors.size() * buffer_count);
}

// Sorts the chunks of each strip by columns, so that a worker finds its rows next to each other and in
// order.
void StepTables::put_rows_in_order(size_t first, uint64_t columns) {
  std::stable_sort(chunks.begin() + static_cast<std::ptrdiff_t>(first), chunks.end(),
                   [&](const abi::Chunk& a, const abi::Chunk& b) {
                     auto rows = static_cast<uint64_t>(rows_in_order);
                     uint64_t strip_a = a.begin / columns / rows;
                     uint64_t strip_b = b.begin / columns / rows;
                     return strip_a != strip_b ? strip_a < strip_b
                                               : a.begin % columns < b.begin % columns;
                   });
}

void StepTables::describe(const Program& program) {
  if (has_rows(program)) lines.push_back(per::row);
  std::vector<Granularity> used = granularities_of(program);
  if (std::find(used.begin(), used.end(), per::column) != used.end()) lines.push_back(per::column);
  rows_in_order = stepfuse::rows_in_order(program);
  based = counted_granularities(program);
}

void StepTables::finish(uint32_t groups) {
  make_parts(groups);
  for (Granularity g : based) {
    uint64_t values = 0;
    for (const abi::Tensor& t : tensors) {
      bases.push_back(values);
      values += tile_count(g, shape_of(t.size, t.columns));
    }
  }
}

void StepTables::set_group(size_t tensor, uint32_t group) {
  uint32_t before = std::exchange(tensors[tensor].group, group);
  try {
    make_parts(static_cast<uint32_t>(group_count()));
  } catch (...) {
    tensors[tensor].group = before;
    throw;
  }
}

StepTables make_tables(const Program& program, const Layout& layout) {
  StepTables tables;
  tables.buffer_count = program.buffers.size();
  tables.describe(program);
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& t = layout.tensors()[i];
    tables.add({.group = static_cast<uint32_t>(t.group),
                .flags = abi::kPresent,
                .size = t.elements,
                .offset = t.offset,
                .full_size = t.element_count(),
                .columns = t.column_count(),
                .scratch_base = 0,
                .id = t.id.value_or(static_cast<uint32_t>(i)),
                .reserved = 0},
               signature_of(program, t, i));
  }
  tables.finish(static_cast<uint32_t>(layout.group_count()));
  // A step over no tensors (for example, only a loss-scale update) still has a kernel.
  if (tables.signatures.empty()) {
    Signature any;
    for (const Buffer& b : program.buffers) any.push_back(b.dtypes.only());
    tables.signatures.push_back(of_size(program, 0, std::move(any)));
  }
  return tables;
}

}  // namespace stepfuse
