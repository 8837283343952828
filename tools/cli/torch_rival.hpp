// PyTorch's pipeline as a rival in `stepfuse bench`: a Python of its own that runs torch_rival.py
// and answers line by line. Knows the measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cli/bench_run.hpp"

namespace stepfuse::cli {

struct TorchOptions {
  std::string python;
  int threads = 0;  // 0: all
  bool compiled = false;
};

// fused=True, foreach=True and, if asked for, torch.compile, over the layout's shapes. Throws
// Error{usage} for what PyTorch has no such pipeline for, Error{device} where Python or PyTorch is
// not to be had.
std::vector<std::unique_ptr<Rival>> torch_rivals(const Source& source,
                                                 const SourceArguments& arguments,
                                                 const LayoutFile& layout,
                                                 const TorchOptions& options);

}  // namespace stepfuse::cli
