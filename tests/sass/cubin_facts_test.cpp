// Facts that cubins state about their kernels in the sections .nv.info, compared with the
// launcher's assumptions and the compiler's log. Attribute numbers are those that `readelf` of
// CUDA's tools prints.
#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "runtime/cuda/step_code.hpp"
#include "tests/support/golden_cases.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tools/sass/disassembler.hpp"
#include "tools/sass/sass.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

enum Attribute : uint8_t {
  kMaxThreads = 0x05,
  kParameterBank = 0x0a,
  kFrameSize = 0x11,
  kParameter = 0x17,
  kParameterBytes = 0x19,
  kRegisters = 0x2f,
};

// One row of .nv.info: a format, an attribute, and either 16 bits or as many bytes as these state.
struct Row {
  uint8_t attribute = 0;
  uint16_t value = 0;
  std::vector<uint32_t> words;
};

class Cubin {
 public:
  explicit Cubin(const std::string& bytes) : bytes_(bytes) {
    REQUIRE(bytes.starts_with(ELFMAG));
    auto header = at<Elf64_Ehdr>(0);
    for (size_t k = 0; k < header.e_shnum; ++k) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + k * sizeof(Elf64_Shdr)));
    }
    uint64_t names = sections_.at(header.e_shstrndx).sh_offset;
    for (const Elf64_Shdr& s : sections_) by_name_[bytes_.c_str() + names + s.sh_name] = s;
  }
  const Elf64_Shdr* section(const std::string& name) const {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : &it->second;
  }
  std::vector<Row> info(const std::string& name) const {
    const Elf64_Shdr* s = section(name);
    REQUIRE(s != nullptr);
    constexpr uint8_t kHasBytes = 4;
    std::vector<Row> rows;
    for (uint64_t i = s->sh_offset; i < s->sh_offset + s->sh_size;) {
      Row row{at<uint8_t>(i + 1), at<uint16_t>(i + 2), {}};
      bool sized = at<uint8_t>(i) == kHasBytes;
      i += 4;
      for (unsigned k = 0; sized && k + 4 <= row.value; k += 4) {
        row.words.push_back(at<uint32_t>(i + k));
      }
      if (sized) i += row.value;
      rows.push_back(std::move(row));
    }
    return rows;
  }
  // A function's value in a table of all functions, whose rows start with the symbol's number.
  uint32_t of_function(const std::string& name, Attribute attribute) const {
    const Elf64_Shdr& symbols = by_name_.at(".symtab");
    uint64_t names = sections_.at(symbols.sh_link).sh_offset;
    for (const Row& row : info(".nv.info")) {
      if (row.attribute != attribute) continue;
      auto symbol =
          at<Elf64_Sym>(symbols.sh_offset + row.words.at(0) * uint64_t{sizeof(Elf64_Sym)});
      if (name == bytes_.c_str() + names + symbol.st_name) return row.words.at(1);
    }
    FAIL("no such row: " << name);
    return 0;
  }

 private:
  template <class T>
  T at(uint64_t offset) const {
    REQUIRE(offset + sizeof(T) <= bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  const std::string& bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::map<std::string, Elf64_Shdr> by_name_;
};

std::vector<Row> rows_of(const std::vector<Row>& rows, Attribute attribute) {
  std::vector<Row> out;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(out),
               [&](const Row& r) { return r.attribute == attribute; });
  return out;
}

cuda::StepCode compile(const Variant& variant, int arch) {
  return cuda::compile_fresh(variant, {.arch = arch});
}

Variant clipped(const char* recipe, Form form) {
  Program p = make_recipe(recipe, {.loss_scale = LossScale::dynamic, .clip = Clip::l2});
  std::vector<Signature> signatures = signatures_of(p);
  return make_variant(optimize(p, signatures), signatures, form);
}

void check_kernel(const Cubin& cubin, const cuda::StepCode& code,
                  const cuda::KernelResources& log) {
  std::vector<Row> info = cubin.info(".nv.info." + log.kernel);
  // One parameter, by value, as the launcher passes it.
  std::vector<Row> parameters = rows_of(info, kParameter), bank = rows_of(info, kParameterBank);
  REQUIRE(parameters.size() == 1);
  CHECK(parameters[0].words.at(1) == 0);  // its ordinal and offset
  REQUIRE(rows_of(info, kParameterBytes).size() == 1);
  CHECK(rows_of(info, kParameterBytes)[0].value == sizeof(abi::DeviceContext));
  REQUIRE(bank.size() == 1);
  CHECK((bank[0].words.at(1) >> 16) == sizeof(abi::DeviceContext));
  // The launch uses the compiled thread count, and the registers suffice for `min_blocks` blocks.
  REQUIRE(rows_of(info, kMaxThreads).size() == 1);
  CHECK(rows_of(info, kMaxThreads)[0].words == std::vector<uint32_t>{abi::kBlockThreads, 1, 1});
  uint32_t registers = cubin.of_function(log.kernel, kRegisters);
  CHECK(registers == static_cast<uint32_t>(log.registers));
  CHECK((registers + 7) / 8 * 8 * abi::kBlockThreads *
            static_cast<uint32_t>(code.options.min_blocks) <=
        65'536);
  CHECK(cubin.of_function(log.kernel, kFrameSize) == static_cast<uint32_t>(log.stack_bytes));
  // The launcher requests no dynamic shared memory; newer archs reserve a kilobyte per block.
  const Elf64_Shdr* section = cubin.section(".nv.shared." + log.kernel);
  uint64_t shared = section == nullptr ? 0 : section->sh_size;
  auto known = static_cast<uint64_t>(log.shared_bytes);
  CHECK(shared == (code.arch >= 90 && shared > known ? known + 1024 : known));
}

}  // namespace

TEST_CASE("cubins agree with the launcher on parameters, threads, registers and shared memory") {
  STEPFUSE_NEEDS_NVRTC();
  const std::pair<Form, int> all[] = {{Form::fused, 80},  {Form::fused, 90}, {Form::fused, 100},
                                      {Form::fused, 120}, {Form::split, 90}, {Form::unfused, 90}};
  for (auto [form, arch] : all) {
    CAPTURE(arch);
    CAPTURE(name(form));
    Variant variant = clipped("adamw", form);
    cuda::StepCode code = compile(variant, arch);
    Cubin cubin(code.code);
    CHECK(code.kernels.size() == variant.plan.kernels.size());
    for (const cuda::KernelResources& log : code.kernels) {
      CAPTURE(log.kernel);
      check_kernel(cubin, code, log);
    }
  }
}

TEST_CASE(
    "kernels wait for other blocks where the launcher starts them cooperatively, and only there") {
  STEPFUSE_NEEDS_NVRTC();
  std::string program = sass::find_disassembler();
  if (program.empty()) {
    MESSAGE("skipped: there is no nvdisasm; tools/setup.sh fetches one");
    return;
  }
  const std::pair<const char*, Form> all[] = {{"adamw", Form::fused},
                                              {"adamw", Form::split},
                                              {"lamb", Form::fused},
                                              {"sm3", Form::fused},
                                              {"sm3", Form::split}};
  for (auto [recipe, form] : all) {
    Variant variant = clipped(recipe, form);
    cuda::StepCode code = compile(variant, 90);
    std::vector<sass::Function> functions = sass::parse(sass::disassemble(program, code.code));
    int32_t launches = 0;
    for (const plan::Kernel& kernel : variant.plan.kernels) {
      for (int32_t n = 0; n <= plan::launches_behind(variant.plan, kernel); ++n, ++launches) {
        const std::string entry = cuda_entry_name(kernel.name, n);
        auto f = std::find_if(functions.begin(), functions.end(),
                              [&](const sass::Function& g) { return g.name == entry; });
        REQUIRE(f != functions.end());
        // The load that reads a barrier's generation.
        bool waits = std::any_of(f->code.begin(), f->code.end(), [](const sass::Instruction& i) {
          return i.base().starts_with("LD") && i.has("STRONG") && i.has("GPU");
        });
        CAPTURE(entry);
        CHECK(waits == plan::blocks_wait(variant.plan, kernel));
      }
    }
    CHECK(functions.size() == static_cast<size_t>(launches));
  }
}
