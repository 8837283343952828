// Writes the files of a failed compilation. Knows the variant, the file system, nlohmann-json and fmt.
#include "runtime/saved/reproducer.hpp"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <stepfuse/error.hpp>
#include <stepfuse/printer.hpp>

#include "runtime/files/new_file.hpp"

namespace stepfuse {
namespace {

// Describes one tensor per signature, each as small as possible. A run over them makes the same kernel.
std::string layout_text(const Variant& variant) {
  auto tensors = nlohmann::ordered_json::array();
  for (size_t s = 0; s < variant.signatures.size(); ++s) {
    uint64_t elements =
        std::max<uint64_t>(1, sizes_of(variant.program, variant.signatures[s]).from);
    nlohmann::ordered_json tensor = {{"name", fmt::format("signature.{}", s)},
                                     {"shape", {elements}}};
    for (size_t b = 0; b < variant.program.buffers.size(); ++b) {
      const Buffer& buffer = variant.program.buffers[b];
      DType type = variant.signatures[s][b];
      if (type != DType::absent) tensor["dtypes"][buffer.name] = name(type);
    }
    tensors.push_back(std::move(tensor));
  }
  return nlohmann::ordered_json{{"name", "reproducer"}, {"tensors", tensors}}.dump(1) + "\n";
}

}  // namespace

std::string keep_reproducer(const FailedCompile& failed) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return {};
  const Variant& v = failed.variant;
  std::string stem = (folder / fmt::format("stepfuse-{}-{}-{:016x}", v.program.name, failed.target,
                                           std::hash<std::string_view>{}(failed.text)))
                         .string();
  std::string text = fmt::format("{}.{}", stem, failed.suffix);
  try {
    replace_file(text, failed.text);
    replace_file(stem + ".sf", print(v.program));
    replace_file(stem + ".json", layout_text(v));
  } catch (const Error&) {
    return {};
  }
  return fmt::format(
      "\nThis is a bug in stepfuse: please report it with the kernel's text, which is kept in {}\n"
      "To replay it: stepfuse {} --form={} --layout={}.json {}.sf",
      text, failed.command, name(v.plan.form), stem, stem);
}

}  // namespace stepfuse
