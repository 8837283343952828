// NCCL's collectives, opened at run time. Knows the loader and its own declarations from nccl.h (2.14).
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include <stepfuse/ranks.hpp>

#include "runtime/process/fork_watch.hpp"
#include "runtime/process/shared_library.hpp"

namespace stepfuse {
namespace {

// These numbers are nccl.h's.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kInt8 = 0;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
constexpr int kMax = 2;

// ncclConfig_t as of 2.14; its size and version tell later libraries which fields it has.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  // calls return at once, and errors of other ranks can be polled
};

struct Library {
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*init_rank)(void** comm, int size, NcclId id, int rank, Config* config) = nullptr;
  int (*all_reduce)(const void* send, void* receive, size_t count, int type, int op, void* comm,
                    void* stream) = nullptr;
  int (*all_gather)(const void* send, void* receive, size_t count, int type, void* comm,
                    void* stream) = nullptr;
  int (*async_error)(void* comm, int* result) = nullptr;
  int (*finalize)(void* comm) = nullptr;
  int (*destroy)(void* comm) = nullptr;
  int (*abort)(void* comm) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  std::string problem;

  void check(int result, std::string_view what) const {
    if (result != kSuccess) {
      throw Error(ErrorKind::device, fmt::format("NCCL: {}: {}; NCCL_DEBUG=INFO tells more", what,
                                                 error_string(result)));
    }
  }
};

Library open_library() {
  Library library;
  const char* named = ::secure_getenv("STEPFUSE_NCCL_LIBRARY");
  const char* name = named != nullptr && *named != '\0' ? named : "libnccl.so.2";
  SharedLibrary file(name);
  file.find(library.get_unique_id, "ncclGetUniqueId");
  file.find(library.init_rank, "ncclCommInitRankConfig");
  file.find(library.all_reduce, "ncclAllReduce");
  file.find(library.all_gather, "ncclAllGather");
  file.find(library.async_error, "ncclCommGetAsyncError");
  file.find(library.finalize, "ncclCommFinalize");
  file.find(library.destroy, "ncclCommDestroy");
  file.find(library.abort, "ncclCommAbort");
  file.find(library.error_string, "ncclGetErrorString");
  library.problem = file.problem();
  if (file && !file.problem().empty()) library.problem += ": it takes NCCL 2.14 or later";
  return library;
}

const Library& library() {
  static const Library instance = open_library();
  if (!instance.problem.empty()) {
    throw Error(ErrorKind::device,
                fmt::format("NCCL could not be opened: {}. Install libnccl2, or name its file in "
                            "STEPFUSE_NCCL_LIBRARY",
                            instance.problem));
  }
  return instance;
}

using Clock = std::chrono::steady_clock;

class Nccl : public Collectives {
 public:
  Nccl(int rank, int size, const NcclId& id, double seconds)
      : rank_(rank), size_(size), limit_(seconds) {
    std::unique_lock lock(mutex_);
    Config config;
    // Other ranks may start much later.
    settle(nccl_.init_rank(&comm_, size, id, rank, &config), "ncclCommInitRankConfig",
           Clock::time_point::max());
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }
  ~Nccl() override {
    if (is_forked()) {  // the connection and its thread belong to the parent
      watcher_.detach();
      return;
    }
    watcher_.request_stop();
    watcher_.join();
    finish();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(float* values, size_t count, Reduction op, Stream stream) override {
    std::unique_lock lock(mutex_);
    check_connected();
    settle(nccl_.all_reduce(values, values, count, kFloat32, op == Reduction::max ? kMax : kSum,
                            comm_, stream.handle),
           "ncclAllReduce", deadline());
  }
  void all_gather(const void* mine, void* all, size_t bytes, Stream stream) override {
    std::unique_lock lock(mutex_);
    check_connected();
    settle(nccl_.all_gather(mine, all, bytes, kInt8, comm_, stream.handle), "ncclAllGather",
           deadline());
  }

 private:
  Clock::time_point deadline() const {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(limit_);
  }

  // Returns the status of the call that is in progress.
  int poll() const {
    int result = kSuccess;
    int asked = nccl_.async_error(comm_, &result);
    return asked != kSuccess ? asked : result;
  }
  int wait_for(int result, Clock::time_point until) const {
    while (result == kInProgress && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      result = poll();
    }
    return result;
  }
  void settle(int result, std::string_view what, Clock::time_point until) {
    result = wait_for(result, until);
    if (result == kSuccess) return;
    give_up(result);
    nccl_.check(result, what);
  }
  void check_connected() const {
    if (comm_ == nullptr) nccl_.check(failure_, "a rank was lost in an earlier call");
  }
  // Ends the kernels that wait for a lost rank. This also releases everything that waits for their streams.
  void give_up(int result) {
    failure_ = result;
    if (comm_ != nullptr) nccl_.abort(comm_);
    comm_ = nullptr;
  }

  // An error on a different rank may occur at any time, while this one waits for its device.
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (comm_ != nullptr && !stop.stop_requested()) {
      stopped_.wait_for(lock, stop, std::chrono::milliseconds(100), [] { return false; });
      if (comm_ == nullptr) return;
      int result = poll();
      if (result != kSuccess && result != kInProgress) give_up(result);
    }
  }

  // Completes the queued collectives before the connection ends. Lost ranks are not waited for.
  void finish() {
    std::unique_lock lock(mutex_);
    if (comm_ == nullptr) return;
    int result = wait_for(nccl_.finalize(comm_), deadline());
    if (result != kSuccess) return give_up(result);
    nccl_.destroy(comm_);
  }

  const Library& nccl_ = library();
  int rank_, size_;
  std::chrono::duration<double> limit_;
  std::mutex mutex_;  // protects all members below
  std::condition_variable_any stopped_;
  void* comm_ = nullptr;  // null after an error
  int failure_ = kSuccess;
  std::jthread watcher_;
};

}  // namespace

NcclId nccl_id() {
  NcclId id;
  library().check(library().get_unique_id(&id), "ncclGetUniqueId");
  return id;
}

std::unique_ptr<Collectives> nccl_collectives(int rank, int size, const NcclId& id,
                                              double seconds) {
  return std::make_unique<Nccl>(rank, size, id, seconds);
}

}  // namespace stepfuse
