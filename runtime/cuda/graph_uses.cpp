// Counts live graphs by means of user objects that the graphs retain. Knows the driver.
//
// While such a graph is alive, the step refuses to move its memory, and a host access waits for the whole context.
#include "runtime/cuda/graph_uses.hpp"

#include <chrono>
#include <thread>

namespace stepfuse::cuda {
namespace {
constexpr auto kPatience = std::chrono::milliseconds(100);
}

void GraphUses::release(void* held) {
  auto* mine = static_cast<Held*>(held);
  (*mine)->live.fetch_sub(1, std::memory_order_release);
  delete mine;
}

// If the driver cannot do this, the capture works without the protection.
void GraphUses::add(CuStream stream) {
  const DriverLibrary& cu = driver();
  bool known = cu.cuStreamGetCaptureInfo != nullptr && cu.cuUserObjectCreate != nullptr &&
               cu.cuUserObjectRelease != nullptr && cu.cuGraphRetainUserObject != nullptr;
  int status = 0;
  CuGraph graph = nullptr;
  if (!known ||
      cu.cuStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr) != kSuccess) {
    untold_ = true;
    return;
  }
  if (graph == nullptr) return;  // the capture is invalid and ends with an error of its own
  auto held = std::make_unique<Held>(shared_);
  CuUserObject object = nullptr;
  shared_->live.fetch_add(1, std::memory_order_relaxed);
  if (cu.cuUserObjectCreate(&object, held.get(), &GraphUses::release, 1, kNoDestructorSync) !=
      kSuccess) {
    shared_->live.fetch_sub(1, std::memory_order_relaxed);
    untold_ = true;
    return;
  }
  held.release();  // from here on release() deletes it when the last reference goes
  if (cu.cuGraphRetainUserObject(graph, object, 1, kMoveUserObject) != kSuccess) {
    cu.cuUserObjectRelease(object, 1);
    untold_ = true;
  }
}

bool GraphUses::any() const {
  auto until = std::chrono::steady_clock::now() + kPatience;
  while (shared_->live.load(std::memory_order_acquire) != 0) {
    if (std::chrono::steady_clock::now() > until) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace stepfuse::cuda
