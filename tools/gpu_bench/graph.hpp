// A captured step, to be replayed. Knows the driver's loader name.
#pragma once

#include <functional>

namespace stepfuse::gpu_bench {

class StepGraph {
 public:
  // `work` puts the step into the stream that it is given, in the current context; twice, since it
  // is run once before it is captured. Throws Error{device}.
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
