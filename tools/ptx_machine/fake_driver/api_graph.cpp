// Graphs, their executables, and the user objects that they keep.
#include <chrono>
#include <thread>

#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

Result instantiate(Driver& driver, void** exec, Graph* graph) {
  if (!driver.graphs.contains(graph)) return kInvalidHandle;
  auto* made = new std::shared_ptr<const Graph>(std::make_shared<Graph>(*graph));
  driver.graph_execs.insert(made);
  *exec = made;
  return kSuccess;
}

// As in the driver, the owner is told later and on a thread of its own.
void release(UserObject* object, unsigned count) {
  object->references -= count;
  if (object->references != 0) return;
  std::thread([done = *object] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    done.destroy(done.payload);
  }).detach();
  delete object;
}

}  // namespace

STEPFUSE_FAKE_API cuUserObjectCreate(UserObject** object, void* payload, void (*destroy)(void*),
                                     unsigned references, unsigned flags) {
  STEPFUSE_FAKE_CALL(initialised);
  if (object == nullptr || destroy == nullptr || references == 0 || flags != 1)
    return kInvalidValue;
  *object = new UserObject{payload, destroy, references};
  return kSuccess;
}

STEPFUSE_FAKE_API cuUserObjectRelease(UserObject* object, unsigned count) {
  STEPFUSE_FAKE_CALL(initialised);
  if (object == nullptr || count > object->references) return kInvalidValue;
  release(object, count);
  return kSuccess;
}

STEPFUSE_FAKE_API cuGraphRetainUserObject(Graph* graph, UserObject* object, unsigned count,
                                          unsigned flags) {
  STEPFUSE_FAKE_CALL(context);
  if (graph == nullptr || object == nullptr || flags > 1) return kInvalidValue;
  if (flags == 0) object->references += count;  // 1: the caller's own references move
  graph->kept.emplace_back(nullptr, [object, count](void*) { release(object, count); });
  return kSuccess;
}

STEPFUSE_FAKE_API cuGraphInstantiateWithFlags(void** exec, Graph* graph, unsigned long long) {
  STEPFUSE_FAKE_CALL(context);
  return instantiate(driver, exec, graph);
}

STEPFUSE_FAKE_API cuGraphGetNodes(Graph* graph, void** nodes, std::size_t* count) {
  STEPFUSE_FAKE_CALL(context);
  if (!driver.graphs.contains(graph)) return kInvalidHandle;
  for (std::size_t k = 0; nodes != nullptr && k < *count && k < graph->nodes.size(); ++k) {
    nodes[k] = &graph->nodes[k];
  }
  *count = graph->nodes.size();
  return kSuccess;
}

STEPFUSE_FAKE_API cuGraphNodeGetType(Graph::Node* node, int* type) {
  STEPFUSE_FAKE_CALL(context);
  if (node == nullptr) return kInvalidHandle;
  *type = node->type;
  return kSuccess;
}

STEPFUSE_FAKE_API cuGraphUpload(std::shared_ptr<const Graph>* exec, void*) {
  STEPFUSE_FAKE_CALL(context);
  return driver.graph_execs.contains(exec) ? kSuccess : kInvalidHandle;
}

STEPFUSE_FAKE_API cuGraphLaunch(std::shared_ptr<const Graph>* exec, void* handle) {
  STEPFUSE_FAKE_CALL(context);
  Stream* stream = driver.streams->find(handle);
  if (stream == nullptr || !driver.graph_execs.contains(exec)) return kInvalidHandle;
  driver.streams->run_graph(*exec, *stream);
  return driver.faults.lost();
}

STEPFUSE_FAKE_API cuGraphExecDestroy(std::shared_ptr<const Graph>* exec) {
  STEPFUSE_FAKE_CALL(context);
  if (driver.graph_execs.erase(exec) == 0) return kInvalidHandle;
  delete exec;
  return kSuccess;
}

STEPFUSE_FAKE_API cuGraphDestroy(Graph* graph) {
  STEPFUSE_FAKE_CALL(context);
  if (driver.graphs.erase(graph) == 0) return kInvalidHandle;
  delete graph;
  return kSuccess;
}
