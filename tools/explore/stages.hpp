// All texts that a step becomes, from the IR to machine code, line by line, and which line of the
// IR each of them is of. Knows the compiler, NVRTC and nvdisasm.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/variant.hpp"
#include "runtime/cuda/resources.hpp"

namespace stepfuse::explore {

struct Line {
  std::string text;
  std::vector<int> origins;  // lines of the first stage, from 1, rising
};

struct Stage {
  std::string name;
  std::string note;         // what it is for, or why it is not there
  std::vector<Line> lines;  // none: `note` says why
};

struct Request {
  Program program;
  std::vector<Signature> signatures;
  Form form = Form::fused;
  int arch = 90;
  std::string cuda_options;  // those that are not left to us
  std::string cpu_level = "host";
};

struct Stages {
  std::vector<Stage> all;  // IR, passes, schedule, plan, CUDA, PTX, SASS, LLVM IR, C
  Variant variant;
  std::vector<cuda::KernelResources> kernels;  // none where NVRTC is not there
};

// Where an origin comes from: programs carry the place of each instruction through the passes; the texts
// made here have the instruction as a comment behind or above its code; PTX and SASS have the compiler's
// line information. Throws what the compiler throws; stages that need what is not there only say so.
Stages make_stages(const Request& request, const std::function<void(std::string_view)>& tell);

}  // namespace stepfuse::explore
