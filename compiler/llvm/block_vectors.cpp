// Computes values of small blocks for as many blocks at once as a vector has lanes. Knows the plan and the
// reduction order.
#include <algorithm>
#include <array>

#include "compiler/llvm/body.hpp"

namespace stepfuse::llvm {
namespace {

constexpr int kQuarter = 4;  // processors move values fastest within this number of lanes

// Returns the lower (or upper) halves of the blocks in two vectors, where a block has `width` adjacent
// lanes. Within a quarter, or the vector if blocks are larger, the second vector's halves follow the
// first's.
std::vector<int> halves(int lanes, int width, bool upper) {
  std::vector<int> from;
  int part = width > kQuarter ? lanes : kQuarter;
  for (int start = 0; start < lanes; start += part) {
    for (int vector = 0; vector < 2; ++vector) {
      for (int k = 0; k < part; ++k) {
        bool is_upper = k % width >= width / 2;
        if (is_upper == upper) from.push_back(vector * lanes + start + k);
      }
    }
  }
  return from;
}

}  // namespace

// A unit has whole vectors of blocks, and what larger blocks share is the same for all of a vector.
bool BodyEmitter::goes_in_vectors(const plan::Pass& pass) const {
  int elements = pass.block * m_.lanes;
  if (elements > kLargestBlock || pass.block < m_.lanes) return false;
  return std::all_of(pass.inputs.begin(), pass.inputs.end(), [&](size_t input) {
    int block = block_of(plan_[body_.code[input].value].at);
    return block == pass.block || block >= elements;
  });
}

// Reduces each block by halving. Each step combines two vectors of blocks to one.
std::string BodyEmitter::reduce_blocks(const plan::Inst& inst, const std::string& i) {
  const StackArray& k = stack_arrays_.at(inst.operands[0]);
  fill_with_identities(inst, k, i, block_of(plan_[inst.value].at) * m_.lanes);
  bool by_bits = reduces_by_bits(inst);
  DType t = by_bits ? DType::i32 : k.dtype;
  std::string type = vector_.type(t);
  std::string first = f_.set("block", "mul i64 {}, {}", i, m_.lanes);
  std::vector<std::string> parts;
  std::vector<std::vector<int>> blocks;  // of each part, in order
  for (int b = 0; b < m_.lanes; ++b) {
    parts.push_back(halved(inst, t, f_.set("block", "add i64 {}, {}", first, b)));
    blocks.push_back(std::vector<int>(static_cast<size_t>(m_.lanes), b));
  }
  for (int width = m_.lanes; width > 1; width /= 2) {
    std::vector<int> low = halves(m_.lanes, width, false);
    std::vector<int> high = halves(m_.lanes, width, true);
    for (size_t p = 0; p < parts.size() / 2; ++p) {
      auto moved = [&](const std::vector<int>& lanes) {
        return f_.shuffle("part", type, parts[2 * p], parts[2 * p + 1], m_.lanes,
                          [&](int k) { return lanes[static_cast<size_t>(k)]; });
      };
      std::vector<int> both = blocks[2 * p];
      both.insert(both.end(), blocks[2 * p + 1].begin(), blocks[2 * p + 1].end());
      std::string lower = moved(low);
      parts[p] = combined_block(inst, t, lower, moved(high));
      blocks[p].clear();
      for (int lane : low) blocks[p].push_back(both[static_cast<size_t>(lane)]);
    }
    parts.resize(parts.size() / 2);
  }
  std::vector<int> order(blocks[0].size());
  for (size_t lane = 0; lane < order.size(); ++lane) {
    order[static_cast<size_t>(blocks[0][lane])] = static_cast<int>(lane);
  }
  std::string all = f_.shuffle(name(inst.value), type, parts[0], "poison", m_.lanes,
                               [&](int k) { return order[static_cast<size_t>(k)]; });
  if (!by_bits) return all;
  return f_.set(name(inst.value), "bitcast {} {} to {}", type, all, vector_.type(DType::f32));
}

void BodyEmitter::emit_block_vectors(const plan::Pass& pass) {
  int elements = pass.block * m_.lanes;
  f_.loop("blocks", "0", count_in_unit(elements), [&](const std::string& i) {
    for (Stream& s : streams_) {
      if (block_of(s) == pass.block) {
        s.address = f_.address("at", s.pointer, i, vector_bytes(s.dtype));
      }
    }
    for (size_t input : pass.inputs) {
      plan::Id v = body_.code[input].value;
      const StackArray& k = stack_arrays_.at(v);
      if (k.block == pass.block) {
        std::string at = f_.address("at", k.array, i, vector_bytes(k.dtype));
        vectors_[v] = vector_.load(k.dtype, at, name(v));
      } else {
        std::string larger = f_.set("block", "udiv i64 {}, {}", i, k.block / elements);
        std::string at = f_.address("at", k.array, larger, size_of(k.dtype));
        vectors_[v] = vector_.splat(k.dtype, scalar_.load(k.dtype, at, name(v)), name(v));
      }
    }
    for (const plan::Inst& inst : body_.code_of(pass)) {
      f_.comment(plan_[inst.value].text);
      if (inst.reduces_block()) {
        vectors_[inst.value] = reduce_blocks(inst, i);
      } else {
        evaluate(inst, i);
      }
      auto kept = stack_arrays_.find(inst.value);
      if (kept == stack_arrays_.end()) continue;
      vector_.store(inst.out, vectors_.at(inst.value),
                    f_.address("at", kept->second.array, i, vector_bytes(inst.out)));
    }
    emit_stores(pass.stores);
    f_.end_comment();
  });
}

}  // namespace stepfuse::llvm
