// A kernel's share of a multiprocessor's resources, as ptxas reports it. Knows only std.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stepfuse::cuda {

struct KernelResources {
  std::string kernel;
  int registers = 0;     // per thread
  int shared_bytes = 0;  // per block
  int stack_bytes = 0;   // per thread, in local memory
  int spill_store_bytes = 0;
  int spill_load_bytes = 0;
  int barriers = 0;
  bool spills() const { return spill_store_bytes != 0 || spill_load_bytes != 0; }
  // Whether the registers did not suffice, under any of ptxas's names for that.
  bool uses_local_memory() const { return spills() || stack_bytes != 0; }
};

struct ResourceLog {
  std::vector<KernelResources> kernels;
  std::string rest;  // all lines outside the report: warnings
};

// Parses the text that `ptxas -v` writes.
ResourceLog parse_resource_log(std::string_view log);

}  // namespace stepfuse::cuda
