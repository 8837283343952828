// Writes a plan as one CUDA C++ translation unit: the kernels' skeletons around the phases. Knows the plan
// and the embedded prelude.

#include "compiler/cuda/emit.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"
#include "compiler/embedded.hpp"

namespace stepfuse {

std::string cuda_entry_name(std::string_view kernel, int32_t number) {
  return number == 0 ? fmt::format("sf_{}", kernel) : fmt::format("sf{}_{}", number, kernel);
}

namespace {
using namespace cuda;

class KernelEmitter {
 public:
  KernelEmitter(Emission& e, const plan::Kernel& kernel) : e_(e), kernel_(kernel) {}

  void emit() {
    for (int32_t i = first(); i < end(); ++i) emit_phase_structs(e_, i, kept(i));
    if (finishes()) emit_finish_structs(e_, phase_at_end());
    open_launch(0);
    emit_shared_tables(e_.out, e_.plan, kernel_);
    for (int32_t i = first(); i < end(); ++i) {
      emit_phase(e_, i, kept(i));
      if (i + 1 < end()) emit_barrier("grid barrier", i, emit_shared_work(i));
    }
    emit_last(end() - 1, emit_shared_work(end() - 1), finishes());
    e_.out.close();
  }

 private:
  int32_t first() const { return kernel_.first_phase; }
  int32_t end() const { return kernel_.end(); }
  bool is_cooperative() const { return plan::blocks_wait(e_.plan, kernel_); }
  bool finishes() const { return &kernel_ == &e_.plan.kernels.back(); }
  bool writes_lines() const { return finishes() && plan::writes_lines(e_.plan); }
  // Returns the phase of the launch that finishes; -1 if that launch has no phase.
  int32_t phase_at_end() const {
    bool alone = kernel_.phase_count == 0 || plan::launches_behind(e_.plan, kernel_) > 0;
    return alone ? -1 : end() - 1;
  }
  ValueSet kept(int32_t i) const {
    return finishes() && i == phase_at_end() ? inherited_values(e_, i) : ValueSet{};
  }

  void open_launch(int32_t number) {
    e_.out.blank();
    e_.out.line(fmt::format("extern \"C\" __global__ void __launch_bounds__(kThreads, {})",
                            e_.options.min_blocks));
    e_.out.open(cuda_entry_name(kernel_.name, number) +
                "(const __grid_constant__ abi::DeviceContext ctx)");
    if (has_lanes()) e_.out.line("__shared__ Lanes lanes;");
    emit_constants();
  }
  bool has_lanes() const {
    for (int32_t i = first(); i < end(); ++i) {
      if (folds_in_lanes(e_.plan, i)) return true;
    }
    return false;
  }

  // Writes every constant that the kernel's lines name.
  void emit_constants() {
    ValueSet used;
    auto add = [&](Id v) {
      if (v != kNone && e_.is_constant(v)) used.insert(v);
    };
    auto add_uniform = [&](const plan::Uniform& code) {
      for (const Level<plan::Inst>& level : code) for_each_operand(level.code, add);
    };
    for (int32_t i = first(); i < end(); ++i) {
      const plan::Phase& phase = e_.plan.phase(i);
      add_uniform(phase.uniform);
      add(phase.guard);
      for (const plan::Body& body : phase.bodies) for_each_operand(body, add);
      for (const plan::Body& body : phase.otherwise) for_each_operand(body, add);
      for (const plan::Rollup& rollup : phase.rollups) add_uniform(rollup.uniform);
    }
    if (finishes()) {
      const plan::Finish& finish = e_.plan.finish;
      for_each_operand(finish.step, add);
      for (const plan::Writes& block : finish.writes) {
        add_uniform(block.code);
        for (const plan::Write& w : block.writes) {
          add(w.value);
          add(w.predicate);
        }
      }
    }
    for (Id v : used) {
      const plan::Value& c = e_.plan[v];
      e_.out.line(
          fmt::format("const {} {} = {};", c_type(c.dtype), c.name, c_literal(c.literal, c.dtype)),
          c.text);
    }
  }

  // The work behind a phase, in order. The last item, null, writes the states of rows and columns.
  using Works = std::vector<const plan::Work*>;
  Works work_behind(int32_t phase) const {
    Works out;
    if (phase >= first()) {
      for (const plan::Work& w : e_.plan.phase(phase).work) out.push_back(&w);
    }
    if (phase + 1 == end() && writes_lines()) out.push_back(nullptr);
    return out;
  }
  void emit_work(int32_t phase, const Works& work) {
    bool may_keep = !is_cooperative() && !finishes();
    for (const plan::Work* w : work) {
      if (w == nullptr) {
        emit_finish_of_lines(e_, phase_at_end());
      } else {
        cuda::emit_work(e_, e_.plan.phase(phase), *w, may_keep);
      }
    }
  }

  // All blocks wait until the last one to arrive has done the `work`; it alone releases the others.
  void emit_barrier(std::string_view comment, int32_t phase, const Works& work) {
    e_.out.open("", std::string(comment));
    e_.out.line("u32 before = 0;");
    e_.out.line("if (threadIdx.x == 0) before = load_acquire(ctx.sync->generation);");
    e_.out.open("if (last_to_arrive(ctx.sync->arrived))");
    emit_work(phase, work);
    e_.out.line("__syncthreads();");
    e_.out.line("if (threadIdx.x == 0) store_release(ctx.sync->generation, before + 1);");
    e_.out.close("} else {");
    e_.out.reopen();
    e_.out.line("wait_for(ctx.sync->generation, before);");
    e_.out.close();
    e_.out.line("__syncthreads();");
    e_.out.close();
  }
  // The work that all blocks share, with a barrier before each part. If blocks do not wait, each part is a launch
  // instead. Returns what is left to the last block.
  Works emit_shared_work(int32_t phase) {
    Works left;
    int32_t number = kernel_.phase_count == 0 ? -1 : 0;  // of the launch that is open
    for (const plan::Work* w : work_behind(phase)) {
      if (w != nullptr && !w->by_all) {
        left.push_back(w);
        continue;
      }
      if (is_cooperative()) {
        emit_barrier(w == nullptr  ? "grid barrier: nobody reads rows or columns any more"
                     : w->arranges ? "grid barrier: everything is stored"
                                   : "grid barrier: slots stand",
                     phase, left);
      } else if (++number > 0) {
        emit_last(phase, left, false);
        e_.out.close();
        open_launch(number);
      }
      left.clear();
      emit_work(phase, {w});
    }
    return left;
  }

  // The end of a launch, where the last block to arrive does the `work`.
  void emit_last(int32_t phase, const Works& work, bool finishes_here) {
    if (work.empty() && !finishes_here) return;
    std::string last = "last_to_arrive(ctx.sync->finished)";
    if (!finishes()) last = "(ctx.flags & abi::kKeepSlots) == 0 && " + last;
    e_.out.open(fmt::format("if ({})", last), finishes_here ? "nobody reads a state any more" : "");
    emit_work(phase, work);
    if (!work.empty() && finishes_here) e_.out.line("__syncthreads();");
    if (finishes_here) emit_finish(e_, phase_at_end());
    e_.out.close();
  }

  Emission& e_;
  const plan::Kernel& kernel_;
};

// Declares storage types that the plan uses and the prelude does not declare.
std::string storage_types(const KernelPlan& plan) {
  DTypeSet met;
  for (const plan::Value& v : plan.values) met = met | v.dtype;
  auto meet = [&](const plan::Bodies& bodies) {
    for (const plan::Body& body : bodies) {
      for (const plan::ArrayUse& a : body.arrays) met = met | a.dtype;
      for (const plan::Inst& inst : body.code) met = met | inst.out;
    }
  };
  for (const plan::Phase& phase : plan.phases) {
    meet(phase.bodies);
    meet(phase.otherwise);
  }
  std::string text;
  met = met & kLowPrecision;
  for (DType t : met) {
    if (has_instructions(t)) continue;
    text += fmt::format("SF_STORAGE({}, u{})\n", c_type(t), 8 * size_of(t));
  }
  return text;
}

}  // namespace

std::string emit_cuda(const KernelPlan& plan, const CudaOptions& options) {
  check(options);
  Emission e{plan, options, {}};
  e.out.line(fmt::format("// step @{}, form {}: generated, self-contained CUDA C++.", plan.name,
                         name(plan.form)));
  e.out.line("namespace stepfuse {");
  e.out.line("using uint32_t = unsigned int;");
  e.out.line("using uint64_t = unsigned long long;");
  e.out.line("}");
  std::string text = e.out.str() + std::string(embedded_abi());
  e.out = {};
  e.out.line("namespace stepfuse {");
  text += e.out.str() + std::string(embedded_prelude());
  if (!plan.arrangements.empty()) text += embedded_prelude_arrange();
  text += storage_types(plan);
  e.out = {};
  for (const plan::Expansion* x : plan::needed_expansions(plan, is_native)) text += function(*x);
  for (const plan::Table& t : plan.tables) emit_table(e.out, t);
  for (const plan::Kernel& kernel : plan.kernels) {
    e.out.blank();
    KernelEmitter(e, kernel).emit();
  }
  e.out.blank();
  e.out.line("}  // namespace stepfuse");
  return text + e.out.str();
}

}  // namespace stepfuse
