// A captured step for replays. Knows the driver loader's name.
#pragma once

#include <functional>

namespace stepfuse::gpu_bench {

class StepGraph {
 public:
  // `work` submits the step to the given stream in the current context. It is called twice: once to
  // run, once to be captured. Throws Error{device}.
  explicit StepGraph(const std::function<void(void* stream)>& work);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  void* stream() const { return stream_; }
  void launch() const;

 private:
  void* stream_ = nullptr;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace stepfuse::gpu_bench
