// A compile that fails keeps what replays it: the step, its storage types, the kernel's text.
#include "runtime/saved/reproducer.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "runtime/cpu/compile_or_keep.hpp"
#include "runtime/cuda/step_code.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tools/workload/layout_file.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder that stands for the temporary one.
struct Temporary {
  ScratchFolder folder;
  std::string saved = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
  Temporary() { ::setenv("TMPDIR", folder.path().c_str(), 1); }
  ~Temporary() {
    if (saved.empty()) ::unsetenv("TMPDIR");
    if (!saved.empty()) ::setenv("TMPDIR", saved.c_str(), 1);
  }
  fs::path file(const std::string& extension) const {
    for (const auto& e : fs::directory_iterator(folder.path())) {
      if (e.path().extension() == extension) return e.path();
    }
    return {};
  }
};

Variant two_types() {
  Program p = make_recipe(
      "adamw",
      {.grad = DTypeSet(DType::f16) | DType::f32, .clip = Clip::l2, .external_norm = true});
  std::vector<Signature> signatures;
  for (DType grad : {DType::f32, DType::f16}) {
    signatures.push_back({grad, DType::f32, DType::f32, DType::f32});
  }
  return make_variant(optimize(p, signatures), signatures, Form::split);
}

// The three files, and that they give the same plan again.
void check_kept(const Temporary& kept, const Variant& variant, const std::string& suffix,
                const std::string& text, const std::string& message) {
  for (const std::string& extension : {suffix, std::string(".sf"), std::string(".json")}) {
    CAPTURE(extension);
    CHECK(message.find(kept.file(extension).string()) != std::string::npos);
  }
  CHECK(read(kept.file(suffix)) == text);
  Program program = parse(read(kept.file(".sf")));
  Layout layout = make_layout(read_layout_file(kept.file(".json")), program);
  std::vector<Signature> signatures;
  for (const TensorSpec& t : layout.tensors()) {
    Signature& s = signatures.emplace_back();
    for (const Buffer& b : program.buffers) s.push_back(t.dtypes.at(b.name));
  }
  CHECK(signatures == variant.signatures);
  Variant again = make_variant(optimize(program, signatures), signatures, variant.plan.form);
  CHECK(print(again.plan) == print(variant.plan));
}

}  // namespace

TEST_CASE("a CPU kernel that LLVM refuses is kept, with the command that replays it") {
  if (!llvm_status().available) {
    MESSAGE("not run: ", llvm_status().problem);
    return;
  }
  Temporary kept;
  Variant variant = two_types();
  std::string text =
      emit_llvm(variant.plan, cpu_target("x86-64")) + "define void @f() {\n  ret i32 1\n}\n";
  std::string message = message_of(
      ErrorKind::compile, [&] { compile_or_keep(variant, text, cpu_target("x86-64"), "x86-64"); });
  CHECK(message.find("LLVM rejects the kernel's text") != std::string::npos);
  CHECK(
      message.find("stepfuse run --steps=0 --backend=cpu --cpu-level=x86-64 --set external_norm=0 "
                   "--form=split --layout=") != std::string::npos);
  check_kept(kept, variant, ".ll", text, message);
}

TEST_CASE("somebody's links in the temporary folder are not followed") {
  Temporary kept;
  Variant variant = two_types();
  FailedCompile failed{variant, "the text", "ll", "x86-64", "dump"};
  REQUIRE(!keep_reproducer(failed).empty());
  REQUIRE(!keep_reproducer(failed).empty());  // once more
  fs::path victim = kept.folder.path() / "victim";
  std::ofstream(victim) << "precious";
  for (const char* extension : {".ll", ".sf", ".json"}) {
    fs::path file = kept.file(extension);
    fs::remove(file);
    fs::create_symlink(victim, file);
    CHECK(keep_reproducer(failed).empty());
    fs::remove(file);
  }
  CHECK(read(victim) == "precious");
}

TEST_CASE("a CUDA kernel that NVRTC refuses is kept, with the command that replays it") {
  STEPFUSE_NEEDS_NVRTC();
  Temporary kept;
  Variant variant = two_types();
  std::string text = emit_cuda(variant.plan) + "int broken(\n";
  std::string message = message_of(ErrorKind::compile, [&] {
    cuda::compile_or_keep(variant, text, {cuda::CodeKind::cubin, 90});
  });
  CHECK(message.find("error: expected") != std::string::npos);
  CHECK(message.find("stepfuse dump --emit=cubin --arch=sm_90 --form=split --layout=") !=
        std::string::npos);
  check_kept(kept, variant, ".cu", text, message);
}
