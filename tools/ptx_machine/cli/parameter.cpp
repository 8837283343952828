// Reads parameters and lays them out. Knows the machine's memory.
#include "tools/ptx_machine/cli/parameter.hpp"

#include <charconv>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

namespace ptx::cli {
namespace {

template <class T>
T number(std::string_view text, std::string_view whole) {
  T value{};
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) {
    throw std::invalid_argument(
        fmt::format("'{}' in '{}' is not a number of its type", text, whole));
  }
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

u64 width(std::string_view type) {
  if (type == "u8") return 1;
  if (type == "u32" || type == "i32" || type == "f32") return 4;
  if (type == "u64" || type == "i64" || type == "f64") return 8;
  return 0;
}

void store_as(std::string_view type, std::byte* to, std::string_view text, std::string_view whole) {
  if (type == "u8") return store(to, number<u8>(text, whole));
  if (type == "u32") return store(to, number<u32>(text, whole));
  if (type == "i32") return store(to, number<s32>(text, whole));
  if (type == "u64") return store(to, number<u64>(text, whole));
  if (type == "i64") return store(to, number<s64>(text, whole));
  if (type == "f32") return store(to, number<float>(text, whole));
  store(to, number<double>(text, whole));
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string value_of(std::string_view type, const std::byte* from) {
  if (type == "u8") return fmt::format("{}", load<u8>(from));
  if (type == "u32") return fmt::format("{}", load<u32>(from));
  if (type == "i32") return fmt::format("{}", load<s32>(from));
  if (type == "u64") return fmt::format("{}", load<u64>(from));
  if (type == "i64") return fmt::format("{}", load<s64>(from));
  if (type == "f32") return fmt::format("{}", load<float>(from));
  return fmt::format("{}", load<double>(from));
}

Buffer make_buffer(const std::string& text, std::size_t index, Memory& memory) {
  constexpr u64 kMaxBytes = u64{1} << 32;
  std::string_view rest = text;
  Buffer b;
  b.type = rest.substr(0, rest.find(':'));
  u64 size = width(b.type);
  if (size == 0 || b.type.size() == rest.size()) {
    throw std::invalid_argument(
        fmt::format("--buffer {}: a buffer is TYPE:COUNT or TYPE:COUNT=FILL, TYPE one of u8, u32, "
                    "i32, u64, i64, f32, f64, FILL a number or 'index'",
                    text));
  }
  rest.remove_prefix(b.type.size() + 1);
  std::size_t equals = std::min(rest.find('='), rest.size());
  b.count = number<u64>(rest.substr(0, equals), text);
  if (b.count == 0 || b.count > kMaxBytes / size) {
    throw std::invalid_argument(
        fmt::format("--buffer {}: it must have 1 to {} elements", text, kMaxBytes / size));
  }
  b.bytes = b.count * size;
  b.address = memory.allocate(b.bytes, fmt::format("buffer {} ({})", index, text));
  if (equals == rest.size()) return b;
  std::string_view fill = rest.substr(equals + 1);
  std::vector<std::byte> bytes(b.bytes);
  for (u64 i = 0; i < b.count; ++i) {
    std::string value =
        fill == "index" ? fmt::format("{}", b.type == "u8" ? i % 256 : i) : std::string(fill);
    store_as(b.type, &bytes[i * size], value, text);
  }
  memory.write(b.address, bytes.data(), bytes.size());
  return b;
}

}  // namespace

std::vector<std::byte> pass(const std::vector<Parameter>& parameters, const Kernel& kernel,
                            Memory& memory, std::vector<Buffer>& buffers) {
  if (parameters.size() != kernel.params.size()) {
    throw std::invalid_argument(fmt::format(
        "{} takes {} parameters, {} were given: one --arg or --buffer for each, in order",
        kernel.name, kernel.params.size(), parameters.size()));
  }
  std::vector<std::byte> out(kernel.param_bytes);
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const std::string& text = parameters[k].text;
    std::byte* to = out.data() + kernel.params[k].offset;
    u32 bytes = kernel.params[k].bytes;
    if (parameters[k].buffer) {
      if (bytes != 8) {
        throw std::invalid_argument(
            fmt::format("--buffer {}: parameter {} of {} has {} bytes, and an address has 8", text,
                        k, kernel.name, bytes));
      }
      buffers.push_back(make_buffer(text, buffers.size(), memory));
      store(to, buffers.back().address);
      continue;
    }
    bool fraction = text.find_first_of(".en") != std::string::npos;
    if (bytes == 4 || bytes == 8) {
      bool wide = bytes == 8;
      bool negative = text.starts_with('-');
      store_as(fraction   ? (wide ? "f64" : "f32")
               : negative ? (wide ? "i64" : "i32")
                          : (wide ? "u64" : "u32"),
               to, text, "--arg " + text);
    } else if (bytes == 1) {
      store_as("u8", to, text, "--arg " + text);
    } else {
      throw std::invalid_argument(
          fmt::format("parameter {} of {} has {} bytes: only 1, 4 and 8 can be given here", k,
                      kernel.name, bytes));
    }
  }
  return out;
}

std::string values_of(const Buffer& buffer, const std::vector<std::byte>& bytes) {
  constexpr u64 kShown = 8;
  std::string out;
  u64 size = width(buffer.type);
  for (u64 i = 0; i < std::min(buffer.count, kShown); ++i) {
    out += (i == 0 ? "" : " ") + value_of(buffer.type, &bytes[i * size]);
  }
  return out + (buffer.count > kShown ? " …" : "");
}

}  // namespace ptx::cli
