// The fake driver through its exported functions, as a runtime opens it: by name, at run time.
#include <array>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tools/ptx_machine/fake_driver/abi.hpp"

using namespace ptx::fake;

namespace {

void* library() {
  static void* handle = dlopen(STEPFUSE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(handle != nullptr, dlerror());
  return handle;
}

// Calls an exported function; integers and pointers go as the types that are passed.
template <class R = int, class... Args>
R call(const char* name, Args... args) {
  void* symbol = dlsym(library(), name);
  REQUIRE_MESSAGE(symbol != nullptr, name);
  return reinterpret_cast<R (*)(Args...)>(symbol)(args...);
}

// arrived[0] counts blocks; out[i] = in[i] + 1 for the grid's threads.
constexpr const char* kPtx = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry add_one(.param .u64 in, .param .u64 out, .param .u32 count)
.maxntid 64
.minnctapersm 3
{
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.s32 %r5, %r3, %r4, %r2;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  add.u32 %r7, %r6, 1;
  st.global.u32 [%rd5], %r7;
DONE:
  ret;
}
)";

// Each block says that it is here, and waits until all are.
constexpr const char* kMeeting = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry meet(.param .u64 arrived)
{
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [arrived];
  mov.u32 %r1, %nctaid.x;
  atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], 1;
WAIT:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra WAIT;
  ret;
}
)";

// The same at two places: who is late at the first one must get there while all others wait at the second.
constexpr const char* kTwoMeetings = R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry meet_twice(.param .u64 arrived)
{
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [arrived];
  mov.u32 %r1, %nctaid.x;
  atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], 1;
FIRST:
  ld.acquire.gpu.global.u32 %r3, [%rd1];
  setp.lt.u32 %p1, %r3, %r1;
  @%p1 bra FIRST;
  atom.acq_rel.gpu.global.add.u32 %r2, [%rd1+128], 1;
SECOND:
  ld.acquire.gpu.global.u32 %r4, [%rd1+128];
  setp.lt.u32 %p2, %r4, %r1;
  @%p2 bra SECOND;
  ret;
}
)";

struct Fixture {
  void* context = nullptr;
  void* function = nullptr;
  void* stream = nullptr;

  Fixture() {
    call<void>("stepfuse_fake_reset");
    REQUIRE(call("cuInit", 0u) == 0);
    REQUIRE(call("cuDevicePrimaryCtxRetain", &context, 0) == 0);
    REQUIRE(call("cuCtxSetCurrent", context) == 0);
    void* module = nullptr;
    REQUIRE(call("cuModuleLoadData", &module, kPtx) == 0);
    REQUIRE(call("cuModuleGetFunction", &function, module, "add_one") == 0);
    REQUIRE(call("cuStreamCreate", &stream, 1u) == 0);
  }

  DevicePointer allocate(std::size_t bytes) {
    DevicePointer address = 0;
    REQUIRE(call("cuMemAlloc_v2", &address, bytes) == 0);
    return address;
  }

  int launch(DevicePointer in, DevicePointer out, unsigned count, unsigned blocks,
             bool cooperative = false) {
    void* params[] = {&in, &out, &count};
    LaunchAttribute attribute{.id = kAttributeCooperative, .padding = {}, .value = {.number = 1}};
    LaunchConfig config{{blocks, 1, 1}, {64, 1, 1}, 0, stream, &attribute, cooperative ? 1u : 0u};
    return call<int, const LaunchConfig*, void*, void**, void**>("cuLaunchKernelEx", &config,
                                                                 function, params, nullptr);
  }

  std::vector<unsigned> read(DevicePointer address, std::size_t count) {
    std::vector<unsigned> values(count);
    CHECK(call<int, void*, DevicePointer, std::size_t>("cuMemcpyDtoH_v2", values.data(), address,
                                                       4 * count) == 0);
    return values;
  }
};

std::uint64_t calls(const char* name) { return call<std::uint64_t>("stepfuse_fake_calls", name); }

}  // namespace

TEST_CASE_FIXTURE(Fixture, "copies, launches, counts its calls") {
  DevicePointer data = allocate(400);
  std::vector<unsigned> values(100, 5);
  CHECK(call<int, DevicePointer, const void*, std::size_t>("cuMemcpyHtoD_v2", data, values.data(),
                                                           400) == 0);
  CHECK(launch(data, data, 100, 2) == 0);
  CHECK(call("cuStreamSynchronize", stream) == 0);
  CHECK(read(data, 100) == std::vector<unsigned>(100, 6));
  CHECK(calls("cuLaunchKernelEx") == 1);
  CHECK(calls("cuMemAlloc_v2") == 1);
  CHECK(calls("cuMemFree_v2") == 0);
  CHECK(calls(nullptr) > 5);
  CHECK(call<std::uint64_t>("stepfuse_fake_instructions") > 100);
  CHECK(call<int, DevicePointer>("cuMemFree_v2", data) == 0);
  CHECK(call<int, DevicePointer>("cuMemFree_v2", data) == kInvalidValue);
}

TEST_CASE_FIXTURE(Fixture, "says what the machine found, and stays broken") {
  DevicePointer data = allocate(400);
  CHECK(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", data, 1u, 100) == 0);
  CHECK(launch(data, data, 101, 2) == kIllegalAddress);
  CHECK(std::string(call<const char*>("stepfuse_fake_error")).find("out_of_bounds") == 0);
  CHECK(launch(data, data, 100, 2) == kIllegalAddress);
  CHECK(call("cuCtxSynchronize") == kIllegalAddress);
  const char* name = nullptr;
  CHECK(call("cuGetErrorName", kIllegalAddress, &name) == 0);
  CHECK(std::string(name) == "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_CASE("a device with pageable memory access shares memory with the host") {
  setenv("STEPFUSE_FAKE_PAGEABLE", "1", 1);
  {
    Fixture device;
    auto address = [](void* p) { return reinterpret_cast<DevicePointer>(p); };
    std::vector<unsigned> ordinary(5000, 5);  // more than a page
    DevicePointer allocated = device.allocate(4 * ordinary.size());
    CHECK(allocated % 256 == 0);
    CHECK(device.launch(address(ordinary.data()), allocated, 5000, 80) == 0);
    CHECK(*reinterpret_cast<unsigned*>(allocated + 4 * 4999) == 6);
    CHECK(device.launch(allocated, address(ordinary.data()), 5000, 80) == 0);
    CHECK(ordinary == std::vector<unsigned>(5000, 7));
    CHECK(device.launch(allocated, 64, 1, 1) == kIllegalAddress);  // where nothing is
  }
  unsetenv("STEPFUSE_FAKE_PAGEABLE");
  call<void>("stepfuse_fake_reset");
}

TEST_CASE_FIXTURE(Fixture, "refuses what a device refuses") {
  DevicePointer data = allocate(4 * 64 * 16);
  CHECK(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", data, 1u, 64 * 16) == 0);
  int per = 0;
  CHECK(call<int, int*, void*, int, std::size_t>("cuOccupancyMaxActiveBlocksPerMultiprocessor",
                                                 &per, function, 64, 0) == 0);
  CHECK(per == 3);
  CHECK(launch(data, data, 64 * 6, 6, true) == 0);
  CHECK(launch(data, data, 64 * 7, 7, true) == kCooperativeLaunchTooLarge);
  CHECK(launch(data, data, 64 * 7, 7) == 0);
  void* module = nullptr;
  CHECK(call("cuModuleLoadData", &module, ".version 9.0 .target sm_90 nonsense") == kInvalidPtx);
  CHECK(call("cuModuleLoadData", &module,
             "\x7F"
             "ELF") == kNoBinaryForGpu);
  CHECK(call("cuModuleLoadData", &module, ".version 9.0 .target sm_120") == kNoBinaryForGpu);
  CHECK(call("cuStreamSynchronize", reinterpret_cast<void*>(0x1234)) == kInvalidHandle);
  DevicePointer huge = 0;
  CHECK(call("cuMemAlloc_v2", &huge, std::size_t{1} << 40) == kOutOfMemory);
}

TEST_CASE_FIXTURE(Fixture, "a grid barrier without the cooperative attribute is named") {
  void* module = nullptr;
  REQUIRE(call("cuModuleLoadData", &module, kMeeting) == 0);
  REQUIRE(call("cuModuleGetFunction", &function, module, "meet") == 0);
  DevicePointer arrived = allocate(4);
  auto meet = [&](unsigned blocks, bool cooperative) {
    CHECK(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", arrived, 0u, 1) == 0);
    void* params[] = {&arrived};
    LaunchAttribute attribute{
        .id = kAttributeCooperative, .padding = {}, .value = {.number = cooperative ? 1 : 0}};
    LaunchConfig config{{blocks, 1, 1}, {1, 1, 1}, 0, stream, &attribute, 1};
    return call<int, const LaunchConfig*, void*, void**, void**>("cuLaunchKernelEx", &config,
                                                                 function, params, nullptr);
  };
  for (int k = 0; k < 8; ++k) CHECK(meet(3, true) == 0);
  CHECK(meet(1, false) == 0);
  CHECK(read(arrived, 1)[0] == 1);
  CHECK(meet(3, false) == kLaunchTimeout);
  std::string error = call<const char*>("stepfuse_fake_error");
  CHECK(error.find("hang: meet") == 0);
  CHECK_MESSAGE(error.find("only a cooperative launch") != std::string::npos, error);
}

TEST_CASE_FIXTURE(Fixture, "blocks that lag come to every barrier under every interleaving") {
  void* module = nullptr;
  void* meet = nullptr;
  REQUIRE(call("cuModuleLoadData", &module, kTwoMeetings) == 0);
  REQUIRE(call("cuModuleGetFunction", &meet, module, "meet_twice") == 0);
  DevicePointer arrived = allocate(256);
  LaunchAttribute attribute{.id = kAttributeCooperative, .padding = {}, .value = {.number = 1}};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    call<void, std::uint64_t>("stepfuse_fake_seed", seed);
    REQUIRE(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", arrived, 0u, 64) ==
            0);
    void* params[] = {&arrived};
    LaunchConfig config{{6, 1, 1}, {1, 1, 1}, 0, stream, &attribute, 1u};
    REQUIRE(call<int, const LaunchConfig*, void*, void**, void**>("cuLaunchKernelEx", &config, meet,
                                                                  params, nullptr) == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "fails on demand") {
  call<void, const char*, std::uint64_t, int, int>("stepfuse_fake_fail", "cuMemAlloc_v2", 2,
                                                   kOutOfMemory, 0);
  DevicePointer data = allocate(4096);
  DevicePointer none = 0;
  CHECK(call("cuMemAlloc_v2", &none, std::size_t{16}) == kOutOfMemory);
  CHECK(call("cuMemAlloc_v2", &none, std::size_t{16}) == 0);

  call<void, const char*>("stepfuse_fake_hide", "cuGraphLaunch");
  void* found = nullptr;
  CHECK(call<int, const char*, void**, int, std::uint64_t, int*>(
            "cuGetProcAddress_v2", "cuGraphLaunch", &found, 13000, 0, nullptr) == kNotFound);
  CHECK(call<int, const char*, void**, int, std::uint64_t, int*>(
            "cuGetProcAddress_v2", "cuMemAlloc", &found, 13000, 0, nullptr) == 0);
  CHECK(found == dlsym(library(), "cuMemAlloc_v2"));

  // The second kernel from now on stops half-way.
  CHECK(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", data, 1u, 1024) == 0);
  call<void, std::uint64_t, std::uint64_t, int>("stepfuse_fake_lose_device", 2, 500, kLaunchFailed);
  CHECK(launch(data, data, 1024, 16) == 0);
  CHECK(launch(data, data, 1024, 16) == kLaunchFailed);
  CHECK(call("cuStreamSynchronize", stream) == kLaunchFailed);
  CHECK(call("cuMemAlloc_v2", &none, std::size_t{16}) == kLaunchFailed);
}

TEST_CASE_FIXTURE(Fixture, "a lazy stream does its work when somebody waits") {
  call<void>("stepfuse_fake_lazy", 1);
  DevicePointer data = allocate(256);
  unsigned* host = nullptr;
  CHECK(call<int, void**, std::size_t, unsigned>("cuMemHostAlloc", reinterpret_cast<void**>(&host),
                                                 256, 0) == 0);
  std::fill(host, host + 64, 1u);
  auto upload = [&](const void* from) {
    CHECK(call<int, DevicePointer, const void*, std::size_t, void*>("cuMemcpyHtoDAsync_v2", data,
                                                                    from, 256, stream) == 0);
  };
  upload(host);
  CHECK(launch(data, data, 64, 1) == 0);
  CHECK(call<std::uint64_t>("stepfuse_fake_launches") == 0);
  // Pinned staging that is used again too early: the copy sees the new values.
  std::fill(host, host + 64, 10u);
  void* event = nullptr;
  CHECK(call("cuEventCreate", &event, 2u) == 0);
  CHECK(call("cuEventRecord", event, stream) == 0);
  CHECK(call("cuEventQuery", event) == kNotReady);
  CHECK(call("cuEventSynchronize", event) == 0);
  CHECK(call("cuEventQuery", event) == 0);
  CHECK(read(data, 64)[0] == 11);

  // Pageable memory may be used again at once.
  std::vector<unsigned> pageable(64, 3);
  upload(pageable.data());
  std::fill(pageable.begin(), pageable.end(), 9u);
  CHECK(launch(data, data, 64, 1) == 0);
  CHECK(call("cuStreamSynchronize", stream) == 0);
  CHECK(read(data, 64)[0] == 4);
}

TEST_CASE_FIXTURE(Fixture, "an event orders two lazy streams") {
  call<void>("stepfuse_fake_lazy", 1);
  DevicePointer data = allocate(256);
  void* other = nullptr;
  void* event = nullptr;
  CHECK(call("cuStreamCreate", &other, 1u) == 0);
  CHECK(call("cuEventCreate", &event, 0u) == 0);
  CHECK(call<int, DevicePointer, unsigned, std::size_t, void*>("cuMemsetD32Async", data, 7u, 64,
                                                               other) == 0);
  CHECK(call("cuEventRecord", event, other) == 0);
  CHECK(call("cuStreamWaitEvent", stream, event, 0u) == 0);
  CHECK(launch(data, data, 64, 1) == 0);
  CHECK(call("cuStreamSynchronize", stream) == 0);
  CHECK(read(data, 64)[0] == 8);
}

TEST_CASE_FIXTURE(Fixture, "captures a stream and replays the graph") {
  DevicePointer data = allocate(256);
  CHECK(call<int, DevicePointer, unsigned, std::size_t>("cuMemsetD32_v2", data, 0u, 64) == 0);
  void* graph = nullptr;
  void* exec = nullptr;
  CHECK(call("cuFuncLoad", function) == 0);
  CHECK(call("cuStreamBeginCapture_v2", stream, 0) == 0);
  int status = 0;
  CHECK(call("cuStreamIsCapturing", stream, &status) == 0);
  CHECK(status == 1);
  CHECK(launch(data, data, 64, 1) == 0);
  CHECK(launch(data, data, 64, 1) == 0);
  CHECK(call("cuStreamEndCapture", stream, &graph) == 0);
  CHECK(read(data, 64)[0] == 0);
  CHECK(call<int, void**, void*, unsigned long long>("cuGraphInstantiateWithFlags", &exec, graph,
                                                     0) == 0);
  CHECK(call("cuGraphDestroy", graph) == 0);
  for (int k = 0; k < 3; ++k) CHECK(call("cuGraphLaunch", exec, stream) == 0);
  CHECK(call("cuStreamSynchronize", stream) == 0);
  CHECK(read(data, 64)[0] == 6);
  CHECK(call("cuGraphExecDestroy", exec) == 0);
}

TEST_CASE_FIXTURE(Fixture, "a capture does not survive waiting, allocating or loading") {
  auto broken_by = [&](auto action, int code) {
    void* graph = nullptr;
    CHECK(call("cuStreamBeginCapture_v2", stream, 0) == 0);
    CHECK(action() == code);
    CHECK(call("cuStreamEndCapture", stream, &graph) == kCaptureInvalidated);
    CHECK(graph == nullptr);
  };
  broken_by([&] { return call("cuStreamSynchronize", stream); }, kCaptureUnsupported);
  DevicePointer none = 0;
  broken_by([&] { return call("cuMemAlloc_v2", &none, std::size_t{16}); }, kCaptureUnsupported);
  void* module = nullptr;
  broken_by([&] { return call("cuModuleLoadData", &module, kPtx); }, kCaptureUnsupported);
  broken_by([&] { return call("cuCtxSynchronize"); }, kCaptureUnsupported);
  // The first launch of a function loads it.
  broken_by([&] { return launch(none, none, 0, 1); }, kCaptureUnsupported);
}

TEST_CASE_FIXTURE(Fixture, "a context that is reset keeps its address and nothing else") {
  std::uint64_t before = 0, after = 0;
  CHECK(call("cuCtxGetId", context, &before) == 0);
  CHECK(call("cuDevicePrimaryCtxReset_v2", 0) == 0);
  CHECK(call("cuCtxGetId", context, &after) == 0);
  CHECK(before != after);
  DevicePointer data = allocate(400);
  CHECK(launch(data, data, 1, 1) == kInvalidHandle);
}

TEST_CASE_FIXTURE(Fixture, "knows its pointers") {
  DevicePointer data = allocate(256);
  unsigned type = 0;
  int ordinal = -1;
  CHECK(call<int, void*, int, DevicePointer>("cuPointerGetAttribute", &type, 2, data + 8) == 0);
  CHECK(type == 2);
  CHECK(call<int, void*, int, DevicePointer>("cuPointerGetAttribute", &ordinal, 9, data) == 0);
  CHECK(ordinal == 0);
  CHECK(call<int, void*, int, DevicePointer>("cuPointerGetAttribute", &type, 2, data + 256) ==
        kInvalidValue);
  DevicePointer base = 0;
  std::size_t bytes = 0;
  CHECK(call<int, DevicePointer*, std::size_t*, DevicePointer>("cuMemGetAddressRange_v2", &base,
                                                               &bytes, data + 100) == 0);
  CHECK(base == data);
  CHECK(bytes == 256);
}
