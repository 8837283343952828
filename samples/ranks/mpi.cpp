// Collectives on MPI with a timeout. Knows MPI and stepfuse.
#include "samples/ranks/mpi.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace sf = stepfuse;

namespace {

constexpr int kRollCall = 77;  // a tag that nothing else uses
constexpr double kGrace = 5;   // seconds for ranks that time out later

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

MpiRanks::MpiRanks(MPI_Comm world, double seconds) : world_(world), seconds_(seconds) {
  MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world_, &rank_);
  MPI_Comm_size(world_, &size_);
}

void MpiRanks::wait(int started, MPI_Request& request, const char* what) {
  int done = 0, result = started;
  for (Clock::time_point begin = Clock::now(); result == MPI_SUCCESS && done == 0;) {
    result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0 && since(begin) > seconds_) break;
    if (since(begin) > 0.01) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (done == 0 || result != MPI_SUCCESS) fail(what);
}

// The surviving ranks announce themselves to all; a rank that stays silent is named as lost.
void MpiRanks::fail(const char* what) {
  auto n = static_cast<size_t>(size_);
  std::vector<MPI_Request> sent(n, MPI_REQUEST_NULL), heard(n, MPI_REQUEST_NULL);
  std::vector<int> words(n), answered(n);
  for (int r = 0; r < size_; ++r) {
    auto i = static_cast<size_t>(r);
    answered[i] = r == rank_ ? 1 : 0;
    if (r == rank_) continue;
    MPI_Isend(&rank_, 1, MPI_INT, r, kRollCall, world_, &sent[i]);
    MPI_Irecv(&words[i], 1, MPI_INT, r, kRollCall, world_, &heard[i]);
  }
  for (Clock::time_point begin = Clock::now(); since(begin) < kGrace;) {
    for (size_t i = 0; i < n; ++i) {
      if (answered[i] != 0 || heard[i] == MPI_REQUEST_NULL) continue;
      int done = 0;
      if (MPI_Test(&heard[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS) answered[i] = done;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string silent;
  for (size_t i = 0; i < n; ++i) {
    if (answered[i] == 0) silent += " " + std::to_string(i);
  }
  throw sf::Error(
      sf::ErrorKind::device,
      "rank " + std::to_string(rank_) + ": the " + what + " did not finish in time; " +
          (silent.empty() ? "all ranks answer, so increase --timeout"
                          : "no answer from rank" + silent + ": dead, or stuck elsewhere"));
}

void MpiRanks::all_reduce(float* values, size_t count, sf::Reduction op, sf::Stream) {
  MPI_Op how = op == sf::Reduction::max ? MPI_MAX : MPI_SUM;
  while (count != 0) {  // MPI counts in int
    size_t portion = std::min<size_t>(count, std::numeric_limits<int>::max());
    MPI_Request request = MPI_REQUEST_NULL;
    wait(MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(portion), MPI_FLOAT, how, world_,
                        &request),
         request, "all-reduce");
    values += portion;
    count -= portion;
  }
}

void MpiRanks::all_gather(const void* mine, void* all, size_t bytes, sf::Stream) {
  if (bytes > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw sf::Error(sf::ErrorKind::usage, "all_gather: " + std::to_string(bytes) +
                                              " bytes per rank exceed MPI's int: gather them in "
                                              "portions");
  }
  MPI_Request request = MPI_REQUEST_NULL;
  auto* own = static_cast<char*>(all) + static_cast<size_t>(rank_) * bytes;
  const void* send = mine == own ? MPI_IN_PLACE : mine;
  wait(MPI_Iallgather(send, static_cast<int>(bytes), MPI_BYTE, all, static_cast<int>(bytes),
                      MPI_BYTE, world_, &request),
       request, "all-gather");
}
