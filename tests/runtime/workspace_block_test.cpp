// The block of a step goes back to the caller's allocator, whatever has become of the device.
#include <doctest/doctest.h>

#include "runtime/step/step_impl.hpp"

using namespace stepfuse;

namespace {

// A device that is lost, from now on or at the first question.
class LostMemory final : public DeviceMemory {
 public:
  bool lost = false, is_lost_when_asked = false;
  std::string device_name() const override { return "lost"; }
  void* allocate(size_t, Stream) override { return nullptr; }
  void release(void*, size_t, Stream) noexcept override {}
  void copy_to_device(void*, const void*, size_t, Stream) override {}
  void copy_to_host(void*, const void*, size_t, Stream) override {}
  void on_device(const std::function<void()>& f) override {
    if (lost) throw Error(ErrorKind::device, "the context is gone");
    f();
  }
  std::string problem_with(const void*) override {
    if (is_lost_when_asked) throw Error(ErrorKind::device, "the context is gone");
    return {};
  }
};

}  // namespace

TEST_CASE("the caller gets a workspace back from a device that is lost") {
  alignas(256) static char memory[256];
  int released = 0;
  Allocator allocator{[&](size_t, Stream) -> void* { return memory; },
                      [&](void* p, size_t, Stream) { released += p == memory ? 1 : 0; }};
  auto device = std::make_shared<LostMemory>();
  SUBCASE("since it was made") {
    WorkspaceBlock block(sizeof memory, allocator, device);
    device->lost = true;
  }
  SUBCASE("while it is made") {
    device->is_lost_when_asked = true;
    CHECK_THROWS_AS(WorkspaceBlock(sizeof memory, allocator, device), Error);
  }
  CHECK(released == 1);
}
