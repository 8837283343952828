// Writes kernel and tables to files, compiles, runs, and reads the arrays back. Knows the plan and
// the tables of CPU tests.
#include "tests/c/c_runner.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <unistd.h>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "ir/semantics/reduction.hpp"
#include "tests/source_dir.hpp"
#include "tests/support/kernel_runner.hpp"

namespace stepfuse::testing {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A temporary folder that is removed at the end of a run.
class Folder {
 public:
  Folder() {
    static std::atomic<int> next = 0;
    path_ = fs::temp_directory_path() / fmt::format("stepfuse-c-{}-{}", getpid(), next++);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

void shell(const std::string& command, const Folder& folder) {
  std::string complaint = folder.file("complaint");
  if (std::system(fmt::format("{} 2> {}", command, complaint).c_str()) == 0) return;
  throw std::runtime_error(command + ": " + read_file(complaint));
}

// The input file of harness.c.
class Input {
 public:
  void word(uint64_t value) { raw(&value, sizeof value); }
  template <class T>
  void block(const T* values, size_t count) {
    word(count * sizeof(T));
    raw(values, count * sizeof(T));
  }
  void blocks(void* const* pointers, std::span<const size_t> bytes) {
    word(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i)
      block(static_cast<const char*>(pointers[i]), bytes[i]);
  }
  std::string text;

 private:
  void raw(const void* data, size_t bytes) {
    if (bytes != 0) text.append(static_cast<const char*>(data), bytes);
  }
};

// The size of each array in bytes.
struct Sizes {
  std::vector<size_t> buffers, states, slots, results, scratch;

  Sizes(const Variant& variant, const StepData& data, const abi::Context& c) {
    const KernelPlan& plan = variant.plan;
    auto members = [&](Granularity d) -> size_t {
      return d == per::step     ? 1
             : d == per::group  ? c.group_count
             : d == per::tensor ? c.tensor_count
             : d == per::column ? c.parts[abi::kColumnsOfTensors].begin[c.tensor_count]
                                : c.chunk_count;
    };
    auto tiles = [&](Granularity g) {
      uint64_t count = 0;
      for (const StepTensor& t : data.tensors) {
        count += tile_count(g, shape_of(t.size, t.column_count()));
      }
      return count;
    };
    uint64_t elements = 0;
    for (const StepTensor& t : data.tensors) {
      for (size_t b = 0; b < t.dtypes.size(); ++b) {
        const Buffer& buffer = variant.program.buffers[b];
        buffers.push_back(buffer.count(t.size, t.column_count()) * size_of(t.dtypes[b]));
      }
      elements += (t.size + 255) / 256 * 256;
    }
    for (const plan::State& s : plan.states) states.push_back(members(s.at) * size_of(s.dtype));
    for (const plan::Reduction& r : plan.reductions) {
      uint64_t folded = !r.partials                ? 0
                        : r.partials == per::strip ? tiles(per::strip)
                                                   : members(r.from);
      slots.push_back(folded * size_of(r.dtype));
      results.push_back((r.partials ? members(r.to) : tiles(r.to)) * size_of(r.dtype));
    }
    for (const plan::Array& a : plan.arrays) {
      if (a.scratch()) scratch.push_back(elements * a.max_bytes);
    }
  }
};

std::string input_of(const KernelPlan& plan, const Sizes& sizes, const abi::Context& c) {
  Input in;
  in.block(c.chunks, c.chunk_count);
  in.block(c.tensors, c.tensor_count);
  in.block(c.bases, plan.based.size() * c.tensor_count);
  in.word(c.group_count);
  in.block(c.step_args, plan.args.step_words);
  in.block(c.group_args, plan.args.words(c.group_count, c.tensor_count) - plan.args.step_words);
  in.blocks(c.pointers, sizes.buffers);
  in.blocks(c.states, sizes.states);
  in.blocks(c.slots, sizes.slots);
  in.blocks(c.results, sizes.results);
  in.blocks(c.scratch, sizes.scratch);
  for (const abi::Partition& p : c.parts) {
    in.block(p.members, p.members == nullptr ? 0 : p.begin[p.count]);
    in.block(p.begin, p.count + size_t{1});
  }
  return std::move(in.text);
}

}  // namespace

std::vector<CCompiler> c_compilers() {
  // In its default mode gcc contracts products and sums, and clang does so within an expression.
  const std::string flags = "-std=c11 -O2 -ffp-contract=off -Wall -Wextra -Werror";
  std::vector<CCompiler> found;
  auto add = [&](const std::string& name, const std::string& command, const std::string& emulator) {
    for (const std::string& tool : {command.substr(0, command.find(' ')), emulator}) {
      if (tool.empty()) continue;
      if (std::system(fmt::format("command -v {} > /dev/null", tool).c_str()) == 0) continue;
      fmt::print("skipped: C kernels by {} ({} is not installed)\n", name, tool);
      return;
    }
    found.push_back({name, command + " " + flags, emulator});
  };
  add("gcc", "gcc", "");
  // Undefined behaviour, such as an index beyond an array, ends the program.
  add("gcc with traps", "gcc -fsanitize=undefined -fsanitize-undefined-trap-on-error", "");
  add("clang", "clang-19", "");
  add("gcc for AArch64", "aarch64-linux-gnu-gcc -static", "qemu-aarch64");
  return found;
}

void run_c(const Variant& variant, const std::string& text, const CCompiler& compiler,
           StepData& data) {
  const KernelPlan& plan = variant.plan;
  Folder folder;
  std::ofstream(folder.file("step.c"))
      << text << read_file(STEPFUSE_SOURCE_DIR "/tests/c/harness.c");
  shell(
      fmt::format("{} -o {} {} -lm", compiler.command, folder.file("step"), folder.file("step.c")),
      folder);
  run_on_tables(variant, data, [&](const abi::Context& c) {
    Sizes sizes(variant, data, c);
    std::ofstream(folder.file("in"), std::ios::binary) << input_of(plan, sizes, c);
    shell(fmt::format("{} {} < {} > {}", compiler.emulator, folder.file("step"), folder.file("in"),
                      folder.file("out")),
          folder);
    std::string out = read_file(folder.file("out"));
    size_t at = 0;
    auto take = [&](void* const* arrays, const std::vector<size_t>& bytes) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        if (at + bytes[i] > out.size()) throw std::runtime_error("the program wrote too little");
        if (bytes[i] != 0) std::memcpy(arrays[i], out.data() + at, bytes[i]);
        at += bytes[i];
      }
    };
    take(c.pointers, sizes.buffers);
    take(c.states, sizes.states);
    if (at != out.size()) throw std::runtime_error("the program wrote too much");
  });
}

}  // namespace stepfuse::testing
