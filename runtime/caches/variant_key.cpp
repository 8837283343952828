// Builds the readable preimage of a variant's key. Knows the variant, ir and fmt.
//
// It has only structure, dtypes, form and target. Arguments arrive at run time, so no schedule of theirs compiles
// anything.
#include "runtime/caches/variant_key.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stepfuse/printer.hpp>

namespace stepfuse {
namespace {
constexpr int kFormat = 1;
}  // namespace

std::string variant_key(const Variant& variant, std::string_view target) {
  std::string key = fmt::format("stepfuse variant {}\ntarget {}\nform {}\n", kFormat, target,
                                name(variant.plan.form));
  for (const Signature& s : variant.signatures) {
    key += "signature";
    for (DType t : s) key += fmt::format(" {}", name(t));
    key += '\n';
  }
  Program program = variant.program;
  for (Arg& a : program.args) a.fallback.reset();
  for (State& s : program.states) s.initial = {};
  for (Buffer& b : program.buffers) b.init = Buffer::Init::none;
  return key + print_canonical(program);
}

std::string disk_preimage(std::string_view key, std::string_view kernel_text) {
  XXH128_hash_t h = XXH3_128bits(kernel_text.data(), kernel_text.size());
  return fmt::format("{}kernel text {:016x}{:016x}\n", key, h.high64, h.low64);
}

}  // namespace stepfuse
