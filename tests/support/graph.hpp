// Streams and captured graphs of a driver. Knows the driver's functions.
#pragma once

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "tests/support/driver_call.hpp"

namespace stepfuse::testing {

// Makes device `ordinal`'s primary context current, as in a trainer that uses the runtime API.
inline void make_context_current(int ordinal = 0) {
  void* context = nullptr;
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &context, ordinal) == 0);
  REQUIRE(call_driver("cuCtxSetCurrent", context) == 0);
}

class TestStream {
 public:
  explicit TestStream(int ordinal = 0) {
    make_context_current(ordinal);
    REQUIRE(call_driver("cuStreamCreate", &stream_, 1U) == 0);
  }
  ~TestStream() { call_driver("cuStreamDestroy_v2", stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  void* handle() const { return stream_; }
  Stream stream() const { return {stream_}; }
  void synchronize() const { REQUIRE(call_driver("cuStreamSynchronize", stream_) == 0); }
  void begin_capture() const { REQUIRE(call_driver("cuStreamBeginCapture_v2", stream_, 2) == 0); }
  // Ends the capture, discards its graph, and returns the driver's status.
  int drop_capture() const {
    void* graph = nullptr;
    int result = call_driver("cuStreamEndCapture", stream_, &graph);
    if (graph != nullptr) call_driver("cuGraphDestroy", graph);
    return result;
  }

 private:
  void* stream_ = nullptr;
};

// The work that `work` puts into the stream, as an executable graph.
class TestGraph {
 public:
  template <class Work>
  TestGraph(const TestStream& stream, const Work& work) : stream_(stream) {
    stream.begin_capture();
    work();
    REQUIRE(call_driver("cuStreamEndCapture", stream.handle(), &graph_) == 0);
    REQUIRE(call_driver("cuGraphInstantiateWithFlags", &executable_, graph_, 0ULL) == 0);
  }
  ~TestGraph() {
    call_driver("cuGraphExecDestroy", executable_);
    drop_graph();
  }
  void drop_graph() {
    if (graph_ != nullptr) call_driver("cuGraphDestroy", graph_);
    graph_ = nullptr;
  }
  TestGraph(const TestGraph&) = delete;
  TestGraph& operator=(const TestGraph&) = delete;
  void launch() const { REQUIRE(call_driver("cuGraphLaunch", executable_, stream_.handle()) == 0); }

 private:
  const TestStream& stream_;
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace stepfuse::testing
