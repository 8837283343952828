// Reads ptxas's resource report. Knows only std.
#include "runtime/cuda/resources.hpp"

#include <cctype>
#include <optional>

#include "ir/text/words.hpp"

namespace stepfuse::cuda {
namespace {

// Returns the number before `unit` in "…, 40 bytes spill stores, …"; 0 if the line has none.
int number_before(std::string_view line, std::string_view unit) {
  size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  size_t end = at;
  size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  return parse_number<int>(line.substr(begin, end - begin)).value_or(0);
}

// Returns the text between the quotes of "Compiling entry function 'name' for 'sm_90'".
std::optional<std::string> entry_name(std::string_view line) {
  constexpr std::string_view kStart = "Compiling entry function '";
  size_t at = line.find(kStart);
  if (at == std::string_view::npos) return std::nullopt;
  at += kStart.size();
  return std::string(line.substr(at, line.find('\'', at) - at));
}

bool is_report_line(std::string_view line) {
  return line.starts_with("ptxas info") || line.find("bytes stack frame") != line.npos;
}

}  // namespace

ResourceLog parse_resource_log(std::string_view log) {
  ResourceLog out;
  for (std::string_view line : split(log, "\n")) {
    while (!line.empty() && (line.back() == '\0' || line.back() == '\r')) line.remove_suffix(1);
    if (!is_report_line(line)) {
      if (line.find_first_not_of(" \t") != line.npos) out.rest += std::string(line) + "\n";
      continue;
    }
    if (auto name = entry_name(line)) {
      out.kernels.push_back({.kernel = *name});
    } else if (!out.kernels.empty()) {
      KernelResources& k = out.kernels.back();
      if (line.find("bytes stack frame") != line.npos) {
        k.stack_bytes = number_before(line, " bytes stack frame");
        k.spill_store_bytes = number_before(line, " bytes spill stores");
        k.spill_load_bytes = number_before(line, " bytes spill loads");
      } else if (line.find(" registers") != line.npos) {
        k.registers = number_before(line, " registers");
        k.barriers = number_before(line, " barriers");
        k.shared_bytes = number_before(line, " bytes smem");
      }
    }
  }
  return out;
}

}  // namespace stepfuse::cuda
