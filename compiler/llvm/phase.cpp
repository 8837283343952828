// Emits a phase as two functions: its step code, and a loop over chunks. Knows the plan, the kernel ABI,
// and the expression table.
#include "compiler/llvm/phase.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

#include "compiler/llvm/body.hpp"
#include "compiler/llvm/uniform.hpp"
#include "ir/semantics/reduction.hpp"

namespace stepfuse::llvm {
namespace {

// From 16 M elements on, data that a phase writes has left the caches before a later phase reads it.
constexpr int kLargeChunks = 1024;

class PhaseEmitter {
 public:
  PhaseEmitter(const KernelPlan& plan, Module& module, size_t phase)
      : plan_(plan),
        m_(module),
        phase_(plan.phases[phase]),
        number_(phase),
        u_(plan, module, f_),
        storage_(f_, module.lanes) {}

  std::string run() {
    u_.load_scalars(phase_.uniform.of(per::step));
    std::string start = f_.label("start");
    std::string loop = f_.label("chunk.loop");
    std::string chunk = f_.label("chunk");
    next_ = f_.label("chunk.next");
    std::string end = f_.label("end");
    // If a condition of the step guards the phase's whole work, return at once.
    if (phase_.guards == plan::Guard::launch) {
      f_.branch(u_[phase_.guard], start, end);
    } else {
      f_.jump(start);
    }
    f_.block(start);
    prepare_caches();
    is_large_ = f_.set("is_large", "icmp uge i64 {}, {}", u_.chunk_count, kLargeChunks);
    f_.jump(loop);

    f_.block(loop);
    std::string c_next = f_.name("c.next");
    chunk_.index = f_.set("c", "phi i64 [ %begin, %{} ], [ {}, %{} ]", start, c_next, next_);
    std::string more = f_.set("more", "icmp slt i64 {}, %end", chunk_.index);
    f_.branch(more, chunk, end);
    f_.block(chunk);
    emit_chunk();
    f_.block(next_);
    f_.line("{} = add nuw nsw i64 {}, 1", c_next, chunk_.index);
    f_.jump(loop);
    f_.block(end);
    // Nothing else orders the stores that bypass the caches.
    std::string fence = f_.label("fence");
    std::string leave = f_.label("leave");
    std::string large = f_.set("is_large", "icmp uge i64 {}, {}", u_.chunk_count, kLargeChunks);
    f_.branch(large, fence, leave);
    f_.block(fence);
    f_.line("fence seq_cst");
    f_.jump(leave);
    f_.block(leave);
    f_.line("ret void");
    return f_.take(fmt::format(
        "void @sf_phase_{}(ptr noalias readonly %ctx, i64 %begin, i64 %end) #0", number_));
  }

 private:
  std::string field(const std::string& record, std::string_view type, size_t offset,
                    std::string_view hint) {
    std::string at = f_.set(hint, "getelementptr i8, ptr {}, i64 {}", record, offset);
    std::string v = f_.set(hint, "load {}, ptr {}", type, at);
    return type == "i64" ? v : f_.set(hint, "zext {} {} to i64", type, v);
  }

  void emit_chunk() {
    std::string record = f_.address("chunk.at", u_.chunks, chunk_.index, sizeof(abi::Chunk));
    chunk_.tensor = field(record, "i32", offsetof(abi::Chunk, tensor), "tensor");
    std::string signature = field(record, "i32", offsetof(abi::Chunk, signature), "signature");
    chunk_.length = field(record, "i32", offsetof(abi::Chunk, length), "length");
    chunk_.begin = field(record, "i64", offsetof(abi::Chunk, begin), "begin");
    std::string tensor = f_.address("tensor.at", u_.tensors, chunk_.tensor, sizeof(abi::Tensor));
    chunk_.record = tensor;
    std::string flags = field(tensor, "i32", offsetof(abi::Tensor, flags), "flags");
    std::string group = field(tensor, "i32", offsetof(abi::Tensor, group), "group");
    std::string offset = field(tensor, "i64", offsetof(abi::Tensor, offset), "offset");
    chunk_.scratch_base = field(tensor, "i64", offsetof(abi::Tensor, scratch_base), "scratch_base");
    chunk_.position = f_.set("position", "add i64 {}, {}", offset, chunk_.begin);
    chunk_.slot = plan_.rows_in_order > 0 ? field(record, "i32", offsetof(abi::Chunk, slot), "slot")
                                          : chunk_.index;

    std::string is_here =
        f_.set("present", "and i64 {}, {}", flags, static_cast<unsigned>(abi::kPresent));
    std::string present = f_.set("present", "icmp ne i64 {}, 0", is_here);
    std::string work = f_.label("chunk.present");
    std::string absent = f_.label("chunk.absent");
    f_.branch(present, work, absent);
    f_.block(absent);
    write_identities();
    f_.jump(next_);

    f_.block(work);
    u_.set_group(group);
    u_.set_tensor(chunk_.tensor);
    if (plan_.has_rows) enter_row();
    group_ = group;
    cached(group_cache_, group, "group");
    cached(tensor_cache_, chunk_.tensor, "tensor");
    cached(row_cache_, row_, "row");
    if (phase_.guards != plan::Guard::chunk) return emit_bodies(phase_.bodies, signature);
    std::string yes = f_.label("guarded");
    std::string no = f_.label("otherwise");
    f_.branch(u_[phase_.guard], yes, no);
    f_.block(yes);
    emit_bodies(phase_.bodies, signature);
    f_.block(no);
    emit_bodies(phase_.otherwise, signature);
  }

  // Determines the chunk's row, and its columns within that row.
  void enter_row() {
    std::string columns = field(chunk_.record, "i64", offsetof(abi::Tensor, columns), "columns");
    std::string row = f_.set("row", "udiv i64 {}, {}", chunk_.begin, columns);
    row_ = f_.set("row", "add i64 {}, {}", u_.members_of(per::row, chunk_.tensor).first, row);
    u_.set_member(per::row, row_);
    if (plan_.rows_in_order == 0) return;
    chunk_.columns = columns;
    chunk_.line = row;
    chunk_.in_line = f_.set("in_line", "urem i64 {}, {}", chunk_.begin, columns);
    std::string first = u_.members_of(per::column, chunk_.tensor).first;
    chunk_.column = f_.set("column", "add i64 {}, {}", first, chunk_.in_line);
  }

  // Group, tensor and row code runs only if the chunk's group, tensor or row differs from that of the chunk
  // before. A tensor's code also needs different inputs: thousands of tensors have equal step counts. The
  // values are kept in memory of the function, which LLVM turns into registers.
  struct Cache {
    std::string member;               // whose values they are; -1: nobody's
    std::string group;                // for tensors: the group they were computed for, or -1
    std::vector<plan::Inst> code;     // instructions that read the context come first
    size_t reads = 0;                 // number of those
    std::vector<std::string> places;  // parallel to the code
  };

  void prepare_caches() {
    prepare_cache(group_cache_, phase_.uniform.of(per::group), "group.of");
    prepare_cache(tensor_cache_, phase_.uniform.of(per::tensor), "tensor.of");
    prepare_cache(row_cache_, phase_.uniform.of(per::row), "row.of");
    bool computes = tensor_cache_.reads < tensor_cache_.code.size();
    if (computes) tensor_cache_.group = f_.allocate("tensor.group", "i64", "-1");
  }
  void prepare_cache(Cache& cache, const std::vector<plan::Inst>& code, std::string_view hint) {
    if (code.empty()) return;
    cache.member = f_.allocate(hint, "i64", "-1");
    auto reads = [](const plan::Inst& i) { return Uniform::reads(i); };
    std::copy_if(code.begin(), code.end(), std::back_inserter(cache.code), reads);
    cache.reads = cache.code.size();
    std::remove_copy_if(code.begin(), code.end(), std::back_inserter(cache.code), reads);
    for (const plan::Inst& inst : cache.code) {
      cache.places.push_back(f_.allocate(plan_[inst.value].name + ".of", type_text(inst.out, 1),
                                         literal(inst.out, {})));
    }
  }

  void cached(Cache& cache, const std::string& member, std::string_view hint) {
    if (cache.code.empty()) return;
    std::string evaluate = f_.label(fmt::format("{}.new", hint));
    std::string ready = f_.label(fmt::format("{}.ready", hint));
    std::string last = f_.set("last", "load i64, ptr {}", cache.member);
    std::string same = f_.set("same", "icmp eq i64 {}, {}", last, member);
    f_.branch(same, ready, evaluate);
    f_.block(evaluate);
    f_.line("store i64 {}, ptr {}", member, cache.member);
    std::span code(cache.code);
    u_.evaluate(code.first(cache.reads));
    if (!cache.group.empty()) leave_if_same(cache, ready);
    u_.evaluate(code.subspan(cache.reads));
    for (size_t i = 0; i < code.size(); ++i) {
      f_.line("store {} {}, ptr {}", type_text(code[i].out, 1), u_[code[i].value], cache.places[i]);
    }
    f_.jump(ready);
    f_.block(ready);
    for (size_t i = 0; i < code.size(); ++i) {
      u_.set(code[i].value, f_.set(plan_[code[i].value].name, "load {}, ptr {}",
                                   type_text(code[i].out, 1), cache.places[i]));
    }
  }

  // Jumps to `ready` if the tensor has the same group as the last one and reads the same values, bit for
  // bit.
  void leave_if_same(const Cache& cache, const std::string& ready) {
    std::string last = f_.set("last", "load i64, ptr {}", cache.group);
    std::string same = f_.set("same", "icmp eq i64 {}, {}", last, group_);
    for (size_t i = 0; i < cache.reads; ++i) {
      const plan::Inst& inst = cache.code[i];
      int bits = inst.out == DType::boolean ? 1 : static_cast<int>(8 * size_of(inst.out));
      std::string integer = integer_type_text(bits, 1);
      std::string was = f_.set("was", "load {}, ptr {}", integer, cache.places[i]);
      std::string is =
          f_.set("is", "bitcast {} {} to {}", type_text(inst.out, 1), u_[inst.value], integer);
      std::string equal = f_.set("same", "icmp eq {} {}, {}", integer, is, was);
      same = f_.set("same", "and i1 {}, {}", same, equal);
    }
    std::string other = f_.label("tensor.other");
    f_.branch(same, ready, other);
    f_.block(other);
    f_.line("store i64 {}, ptr {}", group_, cache.group);
  }

  // Writes the slots of an absent tensor's chunk.
  void write_identities() {
    Ops ops(m_, f_, 1);
    for (int32_t r : plan_.reductions_in(phase_, per::piece)) {
      DType t = plan_.reduction(r).dtype;
      Bits identity = reduction_identity(plan_.reduction(r).op, t);
      ops.store(t, literal(t, identity),
                u_.element(u_.slots, static_cast<size_t>(r), chunk_.slot, size_of(t), "slot"));
    }
  }

  // Emits the body of the chunk's signature; ends the current block.
  void emit_bodies(const plan::Bodies& bodies, const std::string& signature) {
    if (bodies.empty()) return f_.jump(next_);
    std::vector<std::string> labels;
    std::string cases;
    for (size_t k = 0; k < bodies.size(); ++k) {
      labels.push_back(f_.label(fmt::format("body.{}", k)));
      if (k == 0) continue;
      for (uint32_t s : bodies[k].signatures) {
        cases += fmt::format(" i64 {}, label %{}", s, labels[k]);
      }
    }
    if (cases.empty()) {
      f_.jump(labels[0]);
    } else {
      f_.line("switch i64 {}, label %{} [{} ]", signature, labels[0], cases);
    }
    for (size_t k = 0; k < labels.size(); ++k) {
      f_.block(labels[k]);
      BodyEmitter(plan_, m_, f_, u_, storage_, chunk_, bodies[k]).emit(is_large_, next_);
    }
  }

  const KernelPlan& plan_;
  Module& m_;
  const plan::Phase& phase_;
  size_t number_;
  Function f_;
  Uniform u_;
  Storage storage_;
  ChunkNames chunk_;
  Cache group_cache_, tensor_cache_, row_cache_;
  std::string group_, row_;
  std::string next_, is_large_;
};

}  // namespace

std::string emit_enter(const KernelPlan& plan, Module& module, size_t phase) {
  Function f;
  Uniform u(plan, module, f);
  const std::vector<plan::Inst>& code = plan.phases[phase].uniform.of(per::step);
  u.evaluate(code);
  u.store_scalars(code);
  f.line("ret void");
  return f.take(fmt::format("void @sf_enter_{}(ptr %ctx) #0", phase));
}

std::string emit_phase(const KernelPlan& plan, Module& module, size_t phase) {
  return PhaseEmitter(plan, module, phase).run();
}

}  // namespace stepfuse::llvm
