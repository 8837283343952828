// All texts that a step becomes, from the IR to machine code, with the lines of the IR that each
// line was made from. Knows the compiler, NVRTC and nvdisasm.
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
  std::vector<int> origins;  // lines of the first stage, from 1, ascending
  int cycles = 0;            // issue cycles of a machine instruction, if they are known
};

struct Stage {
  std::string name;
  std::string note;         // what the stage is for, or why it is missing
  std::vector<Line> lines;  // empty if the stage is missing
};

struct Request {
  Program program;
  std::vector<Signature> signatures;
  Form form = Form::fused;
  int arch = 90;
  std::string cuda_options;  // passed to the CUDA emitter; unset choices are ours
  std::string cpu_level = "host";
};

struct Stages {
  std::vector<Stage> all;  // IR, passes, schedule, plan, CUDA, PTX, SASS, LLVM IR, C
  Variant variant;
  std::vector<cuda::KernelResources> kernels;  // empty without NVRTC
};

// Origins come from three sources: programs carry each instruction's place through the passes;
// texts made here have the instruction in a comment behind or above its code; PTX and SASS have the
// compiler's line information. Throws what the compiler throws. A stage whose tool is not installed
// says so in its note.
Stages make_stages(const Request& request, const std::function<void(std::string_view)>& tell);

}  // namespace stepfuse::explore
