// Lays out and fills the tables on the device. Knows the kernel ABI and the host's tables.
#include "runtime/cuda/device_tables.hpp"

#include <algorithm>
#include <cstring>

#include "ir/semantics/reduction.hpp"

namespace stepfuse::cuda {
namespace {

constexpr size_t kAlignment = 128;

template <class T>
void put(std::vector<char>* out, size_t offset, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(out->data() + offset, values.data(), values.size() * sizeof(T));
}

std::vector<void*> pointers(char* base, const std::vector<size_t>& offsets) {
  std::vector<void*> out;
  for (size_t o : offsets) out.push_back(base + o);
  return out;
}

// Returns the position of the first chunk whose slot is at least `slot`.
uint32_t position(const std::vector<abi::Chunk>& chunks, uint32_t slot) {
  auto it = std::lower_bound(chunks.begin(), chunks.end(), slot,
                             [](const abi::Chunk& c, uint32_t s) { return c.slot < s; });
  return static_cast<uint32_t>(it - chunks.begin());
}

}  // namespace

DeviceTables::DeviceTables(const KernelPlan& plan, const StepTables& tables) {
  slot_count_ = static_cast<uint32_t>(tables.chunks.size());
  bool has_parts = std::any_of(plan.phases.begin(), plan.phases.end(),
                               [&](const plan::Phase& p) { return plan.may_split_columns(p); });
  for (size_t i = 0; i < tables.chunks.size(); ++i) {
    const abi::Chunk& chunk = tables.chunks[i];
    const abi::Tensor& tensor = tables.tensors[chunk.tensor];
    // The worker of a strip's first row continues with the strip's other rows by itself.
    auto rows = static_cast<uint64_t>(tables.rows_in_order);
    if (rows > 0 && chunk.begin / tensor.columns % rows != 0) continue;
    bool in_warp = chunk.length <= abi::kWarpElements;
    (in_warp ? small_ : large_).push_back(chunk);
    if (!in_warp) block_elements_ += chunk.length;
    for (uint32_t from = 0; has_parts && from < chunk.length; from += abi::kPartColumns) {
      columns_.push_back(chunk);
      columns_.back().begin += from;
      columns_.back().length = std::min(chunk.length - from, abi::kPartColumns);
    }
  }
  tensor_count_ = static_cast<uint32_t>(tables.tensors.size());
  group_count_ = static_cast<uint32_t>(tables.group_count());
  for (const abi::Tensor& t : tables.tensors) {
    if (plan.arrangements.empty()) break;
    arranged_tiles_ += tile_count(kArrangedTile, shape_of(t.size, t.columns));
  }
  parts_ = tables.parts;

  auto take = [&](size_t size) {
    size_t at = bytes_;
    bytes_ += (size + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  sync_ = take(sizeof(abi::Sync));
  chunks_ = take(large_.size() * sizeof(abi::Chunk));
  small_chunks_ = take(small_.size() * sizeof(abi::Chunk));
  columns_at_ = take(columns_.size() * sizeof(abi::Chunk));
  size_t tensor_bytes = tables.tensors.size() * sizeof(abi::Tensor);
  records_bytes_ = tensor_bytes + tables.pointers.size() * sizeof(void*);
  tensors_ = take(records_bytes_);
  pointers_ = tensors_ + tensor_bytes;
  bases_ = take(tables.bases.size() * sizeof(uint64_t));
  // The space suffices for members in any order, because a tensor may move to a different group.
  for (size_t i = 0; i < abi::kPartitions; ++i) {
    parts_at_[i] = {take(parts_[i].begin.back() * sizeof(uint32_t)),
                    take(parts_[i].begin.size() * sizeof(uint32_t))};
  }
  state_pointers_ = take(plan.states.size() * sizeof(void*));
  slot_pointers_ = take(plan.reductions.size() * sizeof(void*));
  result_pointers_ = take(plan.reductions.size() * sizeof(void*));
  scratch_pointers_ = take(plan.scratch_count() * sizeof(void*));
}

std::vector<char> DeviceTables::image(const StepTables& tables, const WorkspacePlan& plan,
                                      char* workspace, const std::vector<void*>& states) const {
  std::vector<char> out(bytes_);
  put(&out, chunks_, large_);
  put(&out, small_chunks_, small_);
  put(&out, columns_at_, columns_);
  write_records(tables, out.data() + tensors_);
  put(&out, bases_, tables.bases);
  for (size_t i = 0; i < abi::kPartitions; ++i) {
    put(&out, parts_at_[i].members, parts_[i].members);
    put(&out, parts_at_[i].begin, parts_[i].begin);
  }
  put(&out, state_pointers_, states);
  put(&out, slot_pointers_, pointers(workspace, plan.slots));
  put(&out, result_pointers_, pointers(workspace, plan.results));
  put(&out, scratch_pointers_, pointers(workspace, plan.scratch));
  return out;
}

void DeviceTables::write_records(const StepTables& tables, char* out) {
  size_t tensor_bytes = tables.tensors.size() * sizeof(abi::Tensor);
  if (tensor_bytes != 0) std::memcpy(out, tables.tensors.data(), tensor_bytes);
  if (!tables.pointers.empty()) {
    std::memcpy(out + tensor_bytes, tables.pointers.data(), tables.pointers.size() * sizeof(void*));
  }
}

abi::DeviceContext DeviceTables::context(char* base) const {
  abi::DeviceContext c{};
  auto at = [&](auto* type, size_t offset) {
    return reinterpret_cast<decltype(type)>(base + offset);
  };
  c.step.chunks = at(c.step.chunks, chunks_);
  c.step.tensors = at(c.step.tensors, tensors_);
  c.step.bases = at(c.step.bases, bases_);
  c.step.pointers = at(c.step.pointers, pointers_);
  c.step.states = at(c.step.states, state_pointers_);
  c.step.slots = at(c.step.slots, slot_pointers_);
  c.step.results = at(c.step.results, result_pointers_);
  c.step.scratch = at(c.step.scratch, scratch_pointers_);
  c.step.chunk_count = slot_count_;
  c.step.tensor_count = tensor_count_;
  c.step.group_count = group_count_;
  c.small_chunks = at(c.small_chunks, small_chunks_);
  c.parts = at(c.parts, columns_at_);
  c.part_count = static_cast<uint32_t>(columns_.size());
  c.sync = at(c.sync, sync_);
  for (size_t i = 0; i < abi::kPartitions; ++i) {
    abi::Partition& p = c.step.parts[i];
    p = parts_[i].view();
    if (p.members != nullptr) p.members = at(p.members, parts_at_[i].members);
    p.begin = at(p.begin, parts_at_[i].begin);
  }
  c.block_chunks = static_cast<uint32_t>(large_.size());
  c.small_count = static_cast<uint32_t>(small_.size());
  return c;
}

uint32_t DeviceTables::member_units() const {
  constexpr uint32_t kWarp = 32;
  auto members = [&](uint32_t partition) {
    const std::vector<uint32_t>& begin = parts_[partition].begin;
    return begin.empty() ? 0 : begin.back();
  };
  uint32_t lines = std::max(members(abi::kRowsOfTensors), members(abi::kColumnsOfTensors));
  auto tiles = static_cast<uint32_t>(std::min<uint64_t>(arranged_tiles_, UINT32_MAX));
  return std::max({(lines + abi::kBlockThreads - 1) / abi::kBlockThreads,
                   (tensor_count_ * kWarp + abi::kBlockThreads - 1) / abi::kBlockThreads, tiles});
}

void DeviceTables::narrow(abi::DeviceContext* c, uint32_t begin, uint32_t end) const {
  uint32_t large = position(large_, begin);
  uint32_t small = position(small_, begin);
  c->step.chunks += large;
  c->block_chunks = position(large_, end) - large;
  c->small_chunks += small;
  c->small_count = position(small_, end) - small;
  uint32_t part = position(columns_, begin);
  c->parts += part;
  c->part_count = position(columns_, end) - part;
}

}  // namespace stepfuse::cuda
