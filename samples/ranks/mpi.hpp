// stepfuse's collectives on MPI, with a timeout that names the ranks that do not answer. Knows MPI
// and stepfuse.
#pragma once

#include <mpi.h>

#include <stepfuse/ranks.hpp>

class MpiRanks : public stepfuse::Collectives {
 public:
  // A collective that has not come back after `seconds` is an error; MPI itself would wait for ever.
  explicit MpiRanks(MPI_Comm world, double seconds = 10);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(float* values, size_t count, stepfuse::Reduction op, stepfuse::Stream) override;
  void all_gather(const void* mine, void* all, size_t bytes, stepfuse::Stream) override;

 private:
  void wait(int started, MPI_Request& request, const char* what);
  [[noreturn]] void fail(const char* what);

  MPI_Comm world_;
  double seconds_;
  int rank_ = 0, size_ = 1;
};
