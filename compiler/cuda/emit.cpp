// A Schedule as one CUDA C++ translation unit: the kernel skeletons around the phases. Knows the
// schedule and the embedded prelude.
#include "compiler/emit.hpp"

#include <fmt/format.h>

#include "compiler/cuda/embedded.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse {

std::string cuda_entry_name(const Kernel& kernel) { return "sf_" + kernel.name; }

namespace {
using namespace cuda;

class KernelEmitter {
 public:
  KernelEmitter(Emission& e, const Kernel& kernel)
      : e_(e), kernel_(kernel), name_(cuda_entry_name(kernel)) {}

  void emit() {
    for (int32_t i = first(); i < end(); ++i) emit_phase_structs(e_, i, kept(i));
    if (finishes()) emit_finish_structs(e_, last_phase());
    e_.out.blank();
    e_.out.line(fmt::format("extern \"C\" __global__ void __launch_bounds__(kThreads, {})",
                            e_.options.min_blocks));
    e_.out.open(name_ + "(const __grid_constant__ abi::DeviceContext ctx)");
    if (has_lanes()) e_.out.line("__shared__ Lanes lanes;");
    emit_constants();
    for (int32_t i = first(); i < end(); ++i) {
      emit_phase(e_, i, kept(i));
      if (i + 1 < end()) emit_barrier(i);
    }
    emit_end();
    e_.out.close();
  }

 private:
  int32_t first() const { return kernel_.first_phase; }
  int32_t end() const { return kernel_.first_phase + kernel_.phase_count; }
  bool is_last() const { return &kernel_ == &e_.s.kernels.back(); }
  bool finishes() const { return is_last(); }
  // Of this kernel; -1 if it only finishes.
  int32_t last_phase() const { return kernel_.phase_count > 0 ? end() - 1 : -1; }
  ValueSet kept(int32_t i) const {
    return finishes() && i == last_phase() ? inherited_values(e_, i) : ValueSet{};
  }
  const Phase& phase(int32_t i) const { return e_.s.phases[static_cast<size_t>(i)]; }

  bool has_lanes() const {
    for (int32_t i = first(); i < end(); ++i) {
      if (folds_in_lanes(e_, i)) return true;
    }
    return false;
  }

  // Every constant that the kernel's lines name.
  void emit_constants() {
    ValueSet used;
    auto add = [&](ValueId v) {
      if (v != kNoValue && e_.is_constant(v)) used.insert(v);
    };
    auto add_list = [&](const std::vector<ValueId>& list) {
      for (ValueId v : list) for_each_operand(e_.p[v], add);
    };
    auto add_uniform = [&](const UniformCode& code) {
      for (const auto* list : {&code.step, &code.group, &code.tensor}) add_list(*list);
    };
    auto add_body = [&](const Body& body) {
      add_list(body.code);
      for (const StoreAction& a : body.stores) {
        add(e_.p[a.store].operands[0]);
        add(a.predicate);
      }
    };
    for (int32_t i = first(); i < end(); ++i) {
      add_uniform(phase(i).uniform);
      add(phase(i).guard);
      add_body(phase(i).body);
      add_body(phase(i).otherwise);
      for (const Rollup& rollup : phase(i).rollups) add_uniform(rollup.uniform);
    }
    if (finishes()) {
      add_uniform(e_.s.finish.uniform);
      add_list(e_.s.finish.writes);
    }
    for (ValueId v : used) {
      DType t = e_.p[v].type.dtype;
      e_.out.line(
          fmt::format("const {} {} = {};", c_type(t), e_.names[v], c_literal(e_.p[v].literal, t)),
          e_.comment(v));
    }
  }

  // All blocks wait until the last one to arrive has folded; it alone releases the others.
  void emit_barrier(int32_t i) {
    e_.out.open("", "grid barrier");
    e_.out.line("u32 before = 0;");
    e_.out.line("if (threadIdx.x == 0) before = load_acquire(ctx.sync->generation);");
    e_.out.open("if (last_to_arrive(ctx.sync->arrived))");
    emit_folds(e_, i, false);
    e_.out.line("__syncthreads();");
    e_.out.line("if (threadIdx.x == 0) store_release(ctx.sync->generation, before + 1);");
    e_.out.close("} else {");
    e_.out.reopen();
    e_.out.line("wait_for(ctx.sync->generation, before);");
    e_.out.close();
    e_.out.line("__syncthreads();");
    e_.out.close();
  }

  void emit_end() {
    bool folds = kernel_.phase_count > 0 && phase(end() - 1).folds();
    if (!folds && !finishes()) return;
    std::string last = "last_to_arrive(ctx.sync->finished)";
    if (!finishes()) last = "(ctx.flags & abi::kKeepSlots) == 0 && " + last;
    e_.out.open(fmt::format("if ({})", last), finishes() ? "nobody reads a state any more" : "");
    if (folds) emit_folds(e_, end() - 1, !finishes());
    if (folds && finishes()) e_.out.line("__syncthreads();");
    if (finishes()) emit_finish(e_, last_phase());
    e_.out.close();
  }

  Emission& e_;
  const Kernel& kernel_;
  std::string name_;
};

}  // namespace

std::string emit_cuda(const Schedule& schedule, const CudaOptions& options) {
  check(options);
  Emission e(schedule, options);
  e.out.line(fmt::format("// step @{}, form {}: generated, self-contained CUDA C++.",
                         schedule.program.name, name(schedule.form)));
  e.out.line("namespace stepfuse {");
  e.out.line("using uint32_t = unsigned int;");
  e.out.line("using uint64_t = unsigned long long;");
  e.out.line("}");
  std::string text = e.out.str() + std::string(embedded_abi());
  e.out = {};
  e.out.line("namespace stepfuse {");
  text += e.out.str() + std::string(embedded_prelude());
  e.out = {};
  for (const Kernel& kernel : schedule.kernels) {
    e.out.blank();
    KernelEmitter(e, kernel).emit();
  }
  e.out.blank();
  e.out.line("}  // namespace stepfuse");
  return text + e.out.str();
}

}  // namespace stepfuse
