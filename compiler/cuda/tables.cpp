// CUDA text of code tables: their arrays, copies in shared memory, lookups. Knows the plan.
#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/text.hpp"

namespace stepfuse::cuda {
namespace {

// Each lane of a warp reads an entry of its own. A load from constant memory takes one turn per cache line
// of 128 bytes and an address of 64 bits. Shared memory takes one turn per entry of the same bank, so a
// single turn for up to 32 entries. Four blocks of a multiprocessor have room for this much in addition to
// their lanes.
constexpr size_t kMostSharedBytes = 12 * 1024;

// A search among few codes takes as many instructions and fewer registers.
bool is_guessed(const plan::Table& t) { return t.guess && t.values.size() > 32; }

// Returns the tree of bounds that are given in ascending order, behind one that is below all.
std::vector<float> tree_of(const std::vector<float>& bounds) {
  std::vector<float> tree(bounds.size());
  for (size_t k = 1; k < tree.size(); ++k) {
    size_t level = std::bit_floor(k);
    size_t step = tree.size() / level;
    tree[k] = bounds[(k - level) * step + step / 2];
  }
  return tree;
}

// Returns the bounds in the order in which a code is searched.
std::vector<float> searched(const plan::Table& t) {
  return t.guess && !is_guessed(t) ? tree_of(t.bounds) : t.bounds;
}

std::string number(float v) { return c_literal(Bits::of(v), DType::f32); }

struct Array {
  std::string name;
  std::vector<float> values;
};
// Returns the arrays that the op reads.
std::vector<Array> arrays_of(const plan::Table& t, Op op) {
  if (op == Op::lookup) return {{t.name, t.values}};
  std::vector<Array> arrays = {{t.bounds_name, searched(t)}};
  if (!is_guessed(t)) return arrays;
  arrays.push_back({t.slopes_name, t.guess->slopes});
  arrays.push_back({t.offsets_name, t.guess->offsets});
  return arrays;
}

}  // namespace

std::string table_expression(const plan::Table& t, Op op, const std::string& operand) {
  if (op == Op::lookup) return fmt::format("{}[code_within({}, {})]", t.name, operand, t.last());
  if (!is_guessed(t)) {
    // The first two levels have so few bounds that they are selected instead of loaded.
    std::vector<float> tree = searched(t);
    tree.resize(std::max<size_t>(4, tree.size()));
    return fmt::format("code_within(code_of({}, {}, {}, {}, {}), {})", t.bounds_name,
                       number(tree[1]), number(tree[2]), number(tree[3]), operand, t.last());
  }
  const plan::CodeGuess& g = *t.guess;
  return fmt::format("guessed_code({}, {}, {}, {}, {}, {}, {}, {}, {}, {})", t.slopes_name,
                     t.offsets_name, t.bounds_name, number(g.low), number(g.high), number(g.scale),
                     number(g.grain), g.shift, number(g.center), operand);
}

void emit_table(Text& out, const plan::Table& t) {
  for (Op op : {Op::lookup, Op::nearest}) {
    for (const Array& a : arrays_of(t, op)) {
      std::vector<std::string> texts;
      for (float v : a.values) texts.push_back(number(v));
      out.array(fmt::format("__device__ const float {}[{}] =", a.name, texts.size()), texts,
                t.text);
    }
  }
}

void emit_shared_tables(Text& out, const KernelPlan& plan, const plan::Kernel& kernel) {
  size_t bytes = 0;
  std::set<std::string> seen;
  auto share = [&](const plan::Inst& inst) {
    if (!reads_table(inst.op)) return;
    const plan::Table& t = plan.table(inst);
    for (const Array& a : arrays_of(t, inst.op)) {
      size_t more = a.values.size() * sizeof(float);
      if (bytes + more > kMostSharedBytes || !seen.insert(a.name).second) continue;
      bytes += more;
      out.line(fmt::format("__shared__ float {}[{}];", a.name, a.values.size()), t.text);
      out.line(fmt::format("share({0}, stepfuse::{0});", a.name));
    }
  };
  for (int32_t i = kernel.first_phase; i < kernel.end(); ++i) {
    for (const plan::Bodies* bodies : {&plan.phase(i).bodies, &plan.phase(i).otherwise}) {
      for (const plan::Body& body : *bodies) {
        std::for_each(body.code.begin(), body.code.end(), share);
      }
    }
  }
  if (bytes > 0) out.line("__syncthreads();");
}

}  // namespace stepfuse::cuda
