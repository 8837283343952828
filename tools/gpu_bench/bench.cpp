// One benchmark case: forms and the copy take turns over the same arrays. Knows the public API, the
// traffic model and the driver.
#include "tools/gpu_bench/bench.hpp"

#include <chrono>
#include <map>
#include <memory>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/traffic.hpp"
#include "compiler/variant.hpp"
#include "tools/gpu_bench/arrays.hpp"
#include "tools/gpu_bench/graph.hpp"

namespace stepfuse::gpu_bench {
namespace {

using cuda::check;
using cuda::driver;

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Program program_of(const Case& c) {
  RecipeOptions options{.grad = c.grad, .loss_scale = LossScale::dynamic, .clip = Clip::l2};
  options.master = c.grad != DType::f32;
  return make_recipe("adamw", options);
}

class Event {
 public:
  Event() { check(driver().cuEventCreate(&event_, 0), "cuEventCreate"); }
  ~Event() { driver().cuEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream = {}) {
    check(driver().cuEventRecord(event_, stream.handle), "cuEventRecord");
  }
  double ms_since(const Event& start) const {
    check(driver().cuEventSynchronize(event_), "cuEventSynchronize");
    float ms = 0;
    check(driver().cuEventElapsedTime(&ms, start.event_, event_), "cuEventElapsedTime");
    return ms;
  }

 private:
  cuda::CuEvent event_ = nullptr;
};

// The work of a turn: steps, steps whose gradients move, replays of a graph, or one of the two
// phases.
// phases.
enum class Turn : uint8_t { steps, moving, replayed, observing, observed };

// One form of the step, over arrays that all of them share.
class Contestant {
 public:
  Contestant(std::string name, const Case& c, const Device& device, Form form, bool observe)
      : program_(program_of(c)),
        step_(program_, c.layout, device, {.form = form, .scaler = &scaler_, .observe = observe}) {
    result.name = std::move(name);
    Signature s;
    for (const Buffer& b : program_.buffers) s.push_back(b.dtypes.only());
    std::vector<Signature> signatures = {s};
    KernelPlan plan = make_variant(optimize(program_, signatures), signatures, form).plan;
    Traffic traffic = traffic_of(plan, 0);
    result.bytes_per_param = traffic.bytes();
    for (const PhaseTraffic& p : traffic.phases) result.phase_bytes.push_back(p.bytes());
    result.launches = launch_count(plan);
  }

  void prepare(const std::map<std::string, std::unique_ptr<DeviceArrays>>& arrays) {
    double start = now_ms();
    step_.prepare();
    step_.adopt_state();  // the benchmark has already filled the arrays
    for (const auto& [name, a] : arrays) {
      if (name != "grad" && name != "grad2") step_.bind_raw(name, a->pointers());
    }
    args_.emplace(step_.make_args());
    step_.run(arrays.at("grad")->pointers(), *args_);
    step_.stats();
    result.first_step_ms = now_ms() - start;
    result.from_disk_cache = step_.compile_report().from_disk_cache;
  }

  // `second` is the gradients' other location, used in every second step; null if they do not move.
  void turn(int steps, const std::vector<void*>& grads, const std::vector<void*>* second) {
    timed_batch(steps, {}, [&](int i) {
      step_.run(second != nullptr && i % 2 == 1 ? *second : grads, *args_);
    });
  }
  // The first phase alone, which observe() runs.
  void turn_observing(int steps, const std::vector<void*>& grads) {
    timed_batch(steps, {}, [&](int) { step_.observe(Tensor{0}, grads, *args_); });
  }
  // The second phase alone. Each step is timed by itself, while the device is busy with the first
  // phase.
  void turn_observed(int steps, const std::vector<void*>& grads) {
    for (int i = 0; i < steps; ++i) {
      step_.observe(Tensor{0}, grads, *args_);
      begin_.record();
      double start = now_ms();
      step_.run(grads, *args_);
      result.host_us.push_back((now_ms() - start) * 1e3);
      end_.record();
      result.device_ms.push_back(end_.ms_since(begin_));
    }
  }
  // Replays of one captured step, whose arguments are set before each replay.
  void turn_replayed(int steps, const std::vector<void*>& grads) {
    if (!graph_) {
      step_.set_args(*args_);
      check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
      graph_ =
          std::make_unique<StepGraph>([&](void* stream) { step_.run_captured(grads, {stream}); });
    }
    timed_batch(steps, {graph_->stream()}, [&](int) {
      step_.set_args(*args_, {graph_->stream()});
      graph_->launch();
    });
  }
  void forget() {
    result.host_us.clear();
    result.device_ms.clear();
  }

  Series result;

 private:
  // Times the work between two events, after one step that is not timed. On an idle device the
  // first event would complete before the host has submitted anything, and the host's time would
  // count as the device's.
  template <class Work>
  void timed_batch(int steps, Stream stream, Work&& work) {
    work(0);
    begin_.record(stream);
    for (int i = 0; i < steps; ++i) {
      double start = now_ms();
      work(i);
      result.host_us.push_back((now_ms() - start) * 1e3);
    }
    end_.record(stream);
    result.device_ms.push_back(end_.ms_since(begin_) / steps);
  }

  Program program_;
  LossScaler scaler_{{.init_scale = 1.0F}};
  Step step_;
  std::optional<Args> args_;
  Event begin_, end_;
  std::unique_ptr<StepGraph> graph_;  // destroyed before the step
};

double copy_once(const DeviceArrays& from, const DeviceArrays& to, size_t bytes) {
  Event begin, end;
  begin.record();
  check(driver().cuMemcpyDtoDAsync(reinterpret_cast<cuda::CuPointer>(to.pointers()[0]),
                                   reinterpret_cast<cuda::CuPointer>(from.pointers()[0]), bytes,
                                   nullptr),
        "cuMemcpyDtoDAsync");
  end.record();
  return 2.0 * static_cast<double>(bytes) / (end.ms_since(begin) * 1e6);
}

}  // namespace

uint64_t bytes_needed(const Case& c, const Settings& settings) {
  uint64_t per_param = 2 * size_of(c.grad);  // gradients have two locations
  for (const Buffer& b : program_of(c).buffers) {
    if (b.name != "grad") per_param += size_of(b.dtypes.only());
  }
  // The unfused form stores unscaled gradients in f32.
  return c.layout.element_count() * (per_param + 4) + 2 * settings.copy_bytes;
}

Result run_case(const Case& c, const Settings& settings) {
  auto context = std::make_shared<cuda::Context>(settings.ordinal);
  cuda::Context::Scope scope(*context);
  Result result;
  result.what = c;
  result.params = c.layout.element_count();

  std::map<std::string, std::unique_ptr<DeviceArrays>> arrays;
  for (const Buffer& b : program_of(c).buffers) {
    bool is_grad = b.name == "grad";
    using Fill = DeviceArrays::Fill;
    Fill fill = b.init == Buffer::Init::zero ? Fill::zeros : Fill::random;
    for (const std::string& name :
         is_grad ? std::vector<std::string>{"grad", "grad2"} : std::vector<std::string>{b.name}) {
      arrays[name] = std::make_unique<DeviceArrays>(context, c.layout, b.dtypes.only(), fill,
                                                    is_grad ? c.misalign : 0);
    }
  }
  Layout bytes;
  bytes.add({.elements = settings.copy_bytes / 4});
  DeviceArrays source(context, bytes, DType::f32, DeviceArrays::Fill::random);
  DeviceArrays target(context, bytes, DType::f32, DeviceArrays::Fill::zeros);

  struct Entry {
    std::unique_ptr<Contestant> contestant;
    Turn turn = Turn::steps;
  };
  std::vector<Entry> entries;
  auto add = [&](const std::string& name, Form form, Turn turn, const std::string& options = {}) {
    Device device = Device::cuda(settings.ordinal, options);
    bool observe = turn == Turn::observing || turn == Turn::observed;
    auto contestant = std::make_unique<Contestant>(name, c, device, form, observe);
    contestant->prepare(arrays);
    entries.push_back({std::move(contestant), turn});
  };
  add("fused", Form::fused, Turn::steps);
  add("fused_moved", Form::fused, Turn::moving);
  add("split", Form::split, Turn::steps);
  add("unfused", Form::unfused, Turn::steps);
  add("observe", Form::split, Turn::observing);
  add("after_observe", Form::split, Turn::observed);
  add("fused_graph", Form::fused, Turn::replayed);
  for (const std::string& o : settings.sweep) {
    try {
      add("fused " + o, Form::fused, Turn::steps, o);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
      result.left_out.emplace_back(e.what());
    }
  }

  for (int round = -2; round < settings.rounds; ++round) {  // two warm-up rounds
    for (Entry& e : entries) {
      const std::vector<void*>& grads = arrays["grad"]->pointers();
      Contestant& one = *e.contestant;
      int steps = settings.steps_per_turn;
      if (e.turn == Turn::steps) one.turn(steps, grads, nullptr);
      if (e.turn == Turn::moving) one.turn(steps, grads, &arrays["grad2"]->pointers());
      if (e.turn == Turn::replayed) one.turn_replayed(steps, grads);
      if (e.turn == Turn::observing) one.turn_observing(steps, grads);
      if (e.turn == Turn::observed) one.turn_observed(steps, grads);
      if (round < 0) e.contestant->forget();
    }
    double gbs = copy_once(source, target, settings.copy_bytes);
    if (round >= 0) result.copy_gbs.push_back(gbs);
  }
  for (Entry& e : entries) {
    Series& s = result.series.emplace_back(std::move(e.contestant->result));
    if (e.turn == Turn::observing) s.bytes_per_param = s.phase_bytes.at(0);
    if (e.turn == Turn::observed) s.bytes_per_param -= s.phase_bytes.at(0);
  }
  return result;
}

}  // namespace stepfuse::gpu_bench
