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
    is_large_ = f_.set("is_large", "icmp uge i64 {}, {}", u_.chunk_count, kLargeChunks);
    auto work = [&] {
      prepare_caches();
      f_.loop("c", "%begin", "%end", [&](const std::string& c) {
        chunk_.index = c;
        emit_chunk();
      });
    };
    // A phase whose whole work hangs on one condition of the step is left at once.
    phase_.guards == plan::Guard::launch ? f_.if_("start", u_[phase_.guard], work) : work();
    // Stores past the caches are ordered by nothing else.
    f_.if_("large", is_large_, [&] { f_.line("fence seq_cst"); });
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
    f_.if_(
        "chunk.present", present, [&] { emit_present(group, signature); },
        [&] { write_identities(); });
  }

  void emit_present(const std::string& group, const std::string& signature) {
    u_.set_group(group);
    u_.set_tensor(chunk_.tensor);
    if (plan_.has_rows) enter_row();
    group_ = group;
    cached(group_cache_, group);
    cached(tensor_cache_, chunk_.tensor);
    cached(row_cache_, row_);
    auto bodies = [&] { emit_bodies(phase_.bodies, signature); };
    auto otherwise = [&] { emit_bodies(phase_.otherwise, signature); };
    if (phase_.guards != plan::Guard::chunk) return bodies();
    f_.if_("guarded", u_[phase_.guard], bodies, otherwise);
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

  void cached(const Cache& cache, const std::string& member) {
    if (cache.code.empty()) return;
    std::string last = f_.set("last", "load i64, ptr {}", cache.member);
    std::span code(cache.code);
    auto compute = [&] {
      if (!cache.group.empty()) f_.line("store i64 {}, ptr {}", group_, cache.group);
      u_.evaluate(code.subspan(cache.reads));
      for (size_t i = 0; i < code.size(); ++i) {
        f_.line("store {} {}, ptr {}", type_text(code[i].out, 1), u_[code[i].value],
                cache.places[i]);
      }
    };
    std::string same = f_.set("same", "icmp eq i64 {}, {}", last, member);
    f_.if_("member.same", same, {}, [&] {
      f_.line("store i64 {}, ptr {}", member, cache.member);
      u_.evaluate(code.first(cache.reads));
      cache.group.empty() ? compute() : f_.if_("reads.same", reads_the_same(cache), {}, compute);
    });
    for (size_t i = 0; i < code.size(); ++i) {
      u_.set(code[i].value, f_.set(plan_[code[i].value].name, "load {}, ptr {}",
                                   type_text(code[i].out, 1), cache.places[i]));
    }
  }

  // An i1: whether the tensor reads what the last one did, bit for bit, and has its group.
  std::string reads_the_same(const Cache& cache) {
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
    return same;
  }

  // Writes the slots of an absent tensor's chunk.
  void write_identities() {
    Ops ops(m_, f_, 1);
    for (int32_t r : plan_.reductions_in(phase_, per::piece)) {
      DType t = plan_.reduction(r).dtype;
      Bits identity = reduction_identity(plan_.reduction(r).op, t);
      ops.store(t, literal(t, identity),
                u_.element(Uniform::Owner::partial, r, chunk_.slot, size_of(t), "slot"));
    }
  }

  // The body of the chunk's signature.
  void emit_bodies(const plan::Bodies& bodies, const std::string& signature) {
    auto emit = [&](const plan::Body& body) {
      BodyEmitter(plan_, m_, f_, u_, storage_, chunk_, body).emit(is_large_);
    };
    if (bodies.size() == 1) emit(bodies[0]);
    if (bodies.size() < 2) return;
    std::string end = f_.label("bodies.end");
    std::vector<std::string> labels;
    std::string cases;
    for (const plan::Body& body : bodies) {
      labels.push_back(f_.label("body"));
      for (uint32_t s : body.signatures) {
        if (labels.size() > 1) cases += fmt::format(" i64 {}, label %{}", s, labels.back());
      }
    }
    f_.line("switch i64 {}, label %{} [{} ]", signature, labels[0], cases);
    for (size_t k = 0; k < labels.size(); ++k) {
      f_.block(labels[k]);
      emit(bodies[k]);
      f_.jump(end);
    }
    f_.block(end);
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
  std::string is_large_;
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
