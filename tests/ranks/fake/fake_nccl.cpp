// A libnccl.so.2 for tests: the same functions, between threads of one process and on host memory. Its
// declarations are nccl.h's. Knows std.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

extern "C" {
struct ncclUniqueId {
  char internal[128];
};
using ncclResult_t = int;

struct World {
  explicit World(int n) : size(n), sync(n), given(static_cast<size_t>(n)), receive(given) {}
  int size;
  std::barrier<> sync;
  std::vector<const void*> given, receive;
};
struct ncclComm {
  std::shared_ptr<World> world;
  int rank;
  std::function<void()> queued;  // an all-reduce that a stream has not come to yet
  bool finalized = false;
};
struct ncclConfig {
  size_t size;
  unsigned magic, version;
  int blocking;
};

// The behaviours that tests ask for: collectives that streams come to later, a rank that does not finalize, and an
// error of another rank.
enum Mode { plain, queues, never_finalizes, rank_lost };
std::atomic<int> g_mode = plain;
std::atomic<int> g_aborts = 0;

#pragma GCC visibility push(default)
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int count = 0;
  std::memset(id->internal, 7, sizeof id->internal);
  id->internal[0] = static_cast<char>(++count);
  return 0;
}

void stepfuse_fake_nccl_mode(int mode) { g_mode = mode; }
int stepfuse_fake_nccl_aborts() { return g_aborts; }

ncclResult_t ncclCommInitRankConfig(ncclComm** comm, int n, ncclUniqueId id, int rank,
                                    ncclConfig* config) {
  bool known = config->size >= sizeof *config && config->magic == 0xcafebeef &&
               config->version >= 21400 && config->blocking == 0;
  if (!known) return 4;
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<World>> worlds;
  if (rank < 0 || rank >= n || id.internal[127] != 7) return 4;  // ncclInvalidArgument
  std::shared_ptr<World> world;
  {
    std::lock_guard lock(mutex);
    auto& known = worlds[std::string(id.internal, sizeof id.internal)];
    if (!known) known = std::make_shared<World>(n);
    world = known;
  }
  *comm = new ncclComm{world, rank, {}};
  return 7;  // ncclInProgress
}

static ncclResult_t all_reduce(const void* send, void* receive, size_t count, int type, int op,
                               ncclComm* comm, void*) {
  if (type != 7 || (op != 0 && op != 2)) return 4;  // ncclFloat32; ncclSum, ncclMax
  World& w = *comm->world;
  w.given[static_cast<size_t>(comm->rank)] = send;
  w.sync.arrive_and_wait();
  std::vector<float> total(count);
  for (size_t i = 0; i < count; ++i) {
    total[i] = static_cast<const float*>(w.given[0])[i];
    for (size_t r = 1; r < w.given.size(); ++r) {
      float other = static_cast<const float*>(w.given[r])[i];
      total[i] = op == 0 ? total[i] + other : std::max(total[i], other);
    }
  }
  w.sync.arrive_and_wait();
  std::memcpy(receive, total.data(), count * sizeof(float));
  return 0;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, int type, int op,
                           ncclComm* comm, void* stream) {
  if (g_mode == plain) return all_reduce(send, receive, count, type, op, comm, stream);
  comm->queued = [=] { all_reduce(send, receive, count, type, op, comm, stream); };
  return 0;
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, int type, ncclComm* comm,
                           void*) {
  if (type != 0) return 4;  // ncclInt8
  World& w = *comm->world;
  w.given[static_cast<size_t>(comm->rank)] = send;
  w.sync.arrive_and_wait();
  for (size_t r = 0; r < w.given.size(); ++r)
    std::memmove(static_cast<char*>(receive) + r * count, w.given[r], count);
  w.sync.arrive_and_wait();
  return 0;
}

ncclResult_t ncclCommGetAsyncError(ncclComm* comm, ncclResult_t* result) {
  bool waits = g_mode == never_finalizes && comm->finalized;
  *result = waits ? 7 : g_mode == rank_lost ? 6 : 0;  // ncclInProgress, ncclRemoteError
  return 0;
}

ncclResult_t ncclCommFinalize(ncclComm* comm) {
  comm->finalized = true;
  if (g_mode != queues) return 7;
  if (comm->queued) comm->queued();
  return 0;
}

ncclResult_t ncclCommDestroy(ncclComm* comm) {
  delete comm;
  return 0;
}

ncclResult_t ncclCommAbort(ncclComm* comm) {
  ++g_aborts;
  delete comm;
  return 0;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result == 4   ? "invalid argument"
         : result == 6 ? "a remote process exited or there was a network error"
         : result == 7 ? "in progress"
                       : "no error";
}
#pragma GCC visibility pop
}
