// PyTorch's pipeline as a rival in `stepfuse bench`: a Python process that runs torch_rival.py and
// answers line by line. Knows the measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/cli/bench_run.hpp"

namespace stepfuse::cli {

struct TorchOptions {
  std::string python;
  int threads = 0;  // 0 means all
  bool compiled = false;
};

// Variants are fused=True, foreach=True and optionally torch.compile, over the layout's shapes.
// Throws Error{usage} if PyTorch has no such pipeline, and Error{device} if Python or PyTorch is
// missing.
std::vector<std::unique_ptr<Rival>> torch_rivals(const Source& source,
                                                 const SourceArguments& arguments,
                                                 const LayoutFile& layout,
                                                 const TorchOptions& options);

}  // namespace stepfuse::cli
