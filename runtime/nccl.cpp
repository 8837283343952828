// NCCL's collectives, opened at run time. Knows the loader and what is declared here of nccl.h (2.x).
#include <cstdlib>
#include <dlfcn.h>

#include <fmt/format.h>

#include <stepfuse/ranks.hpp>

namespace stepfuse {
namespace {

// Numbers of nccl.h.
constexpr int kSuccess = 0;
constexpr int kInt8 = 0;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;
constexpr int kMax = 2;

struct Library {
  int (*get_unique_id)(NcclId* id) = nullptr;
  int (*init_rank)(void** comm, int size, NcclId id, int rank) = nullptr;
  int (*all_reduce)(const void* send, void* receive, size_t count, int type, int op, void* comm,
                    Stream stream) = nullptr;
  int (*all_gather)(const void* send, void* receive, size_t count, int type, void* comm,
                    Stream stream) = nullptr;
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
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.problem = dlerror();
    return library;
  }
  auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr && library.problem.empty()) {
      library.problem = fmt::format("{} has no {}", name, symbol);
    }
  };
  find(library.get_unique_id, "ncclGetUniqueId");
  find(library.init_rank, "ncclCommInitRank");
  find(library.all_reduce, "ncclAllReduce");
  find(library.all_gather, "ncclAllGather");
  find(library.abort, "ncclCommAbort");
  find(library.error_string, "ncclGetErrorString");
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

class Nccl : public Collectives {
 public:
  Nccl(int rank, int size, const NcclId& id) : rank_(rank), size_(size) {
    nccl_.check(nccl_.init_rank(&comm_, size, id, rank), "ncclCommInitRank");
  }
  // Not ncclCommDestroy, which waits for ranks that may be gone.
  ~Nccl() override { nccl_.abort(comm_); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(float* values, size_t count, Op op, Stream stream) override {
    nccl_.check(nccl_.all_reduce(values, values, count, kFloat32,
                                 op == Op::reduce_max ? kMax : kSum, comm_, stream),
                "ncclAllReduce");
  }
  void all_gather(const void* mine, void* all, size_t bytes, Stream stream) override {
    nccl_.check(nccl_.all_gather(mine, all, bytes, kInt8, comm_, stream), "ncclAllGather");
  }

 private:
  const Library& nccl_ = library();
  int rank_, size_;
  void* comm_ = nullptr;
};

}  // namespace

NcclId nccl_id() {
  NcclId id;
  library().check(library().get_unique_id(&id), "ncclGetUniqueId");
  return id;
}

std::unique_ptr<Collectives> nccl_collectives(int rank, int size, const NcclId& id) {
  return std::make_unique<Nccl>(rank, size, id);
}

}  // namespace stepfuse
