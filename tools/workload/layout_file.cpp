// Parameter layouts from JSON files. Knows nlohmann-json.
#include "tools/workload/layout_file.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

#include "ir/text/printable.hpp"
#include "runtime/files/json_text.hpp"
#include "runtime/files/safetensors.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse {
namespace {

using Json = nlohmann::json;

// The row length, which steps may need besides the element count. A tensor without elements has no
// columns.
uint64_t columns_of(const std::vector<uint64_t>& shape) {
  uint64_t columns = shape.size() < 2 || shape[0] == 0 ? 0 : 1;
  for (size_t i = 1; i < shape.size(); ++i) columns *= shape[i];
  return columns;
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  LayoutFile read(const Json& root) {
    if (!root.is_object()) fail("a layout is an object with \"name\" and \"tensors\"");
    check_fields(root, {"name", "source", "tensors"});
    LayoutFile layout;
    layout.name = text(root, "name", true);
    layout.source = text(root, "source", false);
    auto tensors = root.find("tensors");
    if (tensors == root.end() || !tensors->is_array()) fail("\"tensors\" must be an array");
    for (size_t i = 0; i < tensors->size(); ++i) {
      at_ = fmt::format("tensor entry {}", i);
      read_entry((*tensors)[i], layout.tensors);
    }
    return layout;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::parse, at_.empty() ? fmt::format("{}: error: {}", file_, what)
                                              : fmt::format("{}: error: {}: {}", file_, at_, what));
  }

  void check_fields(const Json& object, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object.items()) {
      bool found = false;
      for (std::string_view k : known) found |= k == key;
      if (found) continue;
      std::string list;
      for (std::string_view k : known) list += fmt::format(" {}", k);
      fail(fmt::format("there is no field \"{}\"; there are{}", key.substr(0, 80), list));
    }
  }

  std::string text(const Json& object, const char* key, bool required) const {
    auto it = object.find(key);
    if (it == object.end() && !required) return "";
    if (it == object.end()) {
      fail(fmt::format("the {} has no \"{}\": add one, as in \"{}\": \"model\"",
                       at_.empty() ? "layout" : "tensor", key, key));
    }
    if (!it->is_string()) fail(fmt::format("\"{}\" must be a string", key));
    auto value = it->get<std::string>();
    if (printable(value) != value) {
      fail(fmt::format("\"{}\" holds a control character", key));
    }
    return value;
  }

  uint64_t number(const Json& value, std::string_view what, uint64_t max) const {
    if (!value.is_number_unsigned()) {
      fail(fmt::format("{} must be a whole number, 0 or more", what));
    }
    auto n = value.get<uint64_t>();
    if (n > max) fail(fmt::format("{} is {}; it can be at most {}", what, n, max));
    return n;
  }

  uint64_t elements(const Json& entry) const {
    auto shape = entry.find("shape");
    if (shape == entry.end() || !shape->is_array()) fail("\"shape\" must be an array of sizes");
    uint64_t product = 1;
    bool empty = false;
    for (const Json& size : *shape) {
      uint64_t n = number(size, "a size in \"shape\"", std::numeric_limits<uint64_t>::max());
      empty |= n == 0;
      if (n != 0 && product > kMaxElements / n) {
        fail(fmt::format("\"shape\" has more than {} elements", kMaxElements));
      }
      product *= n == 0 ? 1 : n;
    }
    return empty ? 0 : product;
  }

  void read_dtypes(const Json& entry, TensorEntry& tensor) const {
    auto dtypes = entry.find("dtypes");
    if (dtypes == entry.end()) return;
    if (!dtypes->is_object()) fail("\"dtypes\" must be an object from buffer name to type");
    for (const auto& [buffer, value] : dtypes->items()) {
      auto dtype = value.is_string() ? dtype_from_name(value.get<std::string>()) : std::nullopt;
      if (!dtype) {
        fail(fmt::format("the dtype of \"{}\" must be one of {}", buffer.substr(0, 80),
                         names(kFloatStorage | DType::i32, ", ")));
      }
      tensor.dtypes.emplace(buffer, *dtype);
    }
  }

  void read_args(const Json& entry, TensorEntry& tensor) const {
    auto args = entry.find("args");
    if (args == entry.end()) return;
    if (!args->is_object()) fail("\"args\" must be an object from argument to number");
    for (const auto& [name, value] : args->items()) {
      if (!value.is_number()) {
        fail(fmt::format("the argument \"{}\" must be a number", name.substr(0, 80)));
      }
      tensor.args.emplace(name, value.get<double>());
    }
  }

  void read_misalign(const Json& entry, TensorEntry& tensor) const {
    auto misalign = entry.find("misalign");
    if (misalign == entry.end()) return;
    auto count = [&](const Json& value) {
      return static_cast<uint32_t>(number(value, "\"misalign\"", kMaxMisalign));
    };
    if (!misalign->is_object()) {
      tensor.misalign = count(*misalign);
      return;
    }
    for (const auto& [buffer, value] : misalign->items()) {
      tensor.misalign_of.emplace(buffer, count(value));
    }
  }

  void read_entry(const Json& entry, std::vector<TensorEntry>& out) {
    if (!entry.is_object()) fail("a tensor is an object with \"name\" and \"shape\"");
    TensorEntry tensor;
    tensor.name = text(entry, "name", true);
    at_ = fmt::format("tensor \"{}\"", tensor.name.substr(0, 80));
    check_fields(entry, {"name", "shape", "group", "count", "dtypes", "args", "misalign"});
    tensor.size = elements(entry);
    tensor.columns = columns_of(entry.at("shape").get<std::vector<uint64_t>>());
    auto group = entry.find("group");
    if (group != entry.end()) {
      tensor.group = static_cast<int>(number(*group, "\"group\"", kMaxGroup));
    }
    read_dtypes(entry, tensor);
    read_args(entry, tensor);
    read_misalign(entry, tensor);
    auto given = entry.find("count");
    if (given == entry.end()) {
      out.push_back(std::move(tensor));
      return;
    }
    uint64_t count = number(*given, "\"count\"", kMaxCounted);
    counted_ += count;
    if (counted_ > kMaxCounted) {
      fail(fmt::format("the counts of a layout make at most {} tensors: list them one by one",
                       kMaxCounted));
    }
    std::string base = tensor.name;
    for (uint64_t i = 0; i < count; ++i) {
      tensor.name = fmt::format("{}.{}", base, i);
      out.push_back(tensor);
    }
  }

  // Layout::add() checks the exact limits; these only prevent overflow of the types here.
  static constexpr uint64_t kMaxElements = uint64_t{1} << 44;
  // a few bytes of text can ask for many tensors
  static constexpr uint64_t kMaxCounted = uint64_t{1} << 17;
  static constexpr uint64_t kMaxGroup = (uint64_t{1} << 20) - 1;
  static constexpr uint64_t kMaxMisalign = 4096;

  std::string_view file_;
  std::string at_;
  uint64_t counted_ = 0;  // tensors made by "count" so far
};

SourceLoc location(std::string_view text, size_t byte) {
  SourceLoc loc{1, 1};
  for (size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    ++loc.column;
    if (text[i] == '\n') loc = {loc.line + 1, 1};
  }
  return loc;
}

// The part of nlohmann's message after its number and position, which we print our own way.
std::string syntax_message(std::string_view what) {
  size_t colon = what.find(": ");
  return fmt::format("not JSON: {}",
                     colon == std::string_view::npos ? what : what.substr(colon + 2));
}

}  // namespace

LayoutFile parse_layout(std::string_view text, std::string_view file) {
  Json root;
  try {
    root = parse_json(text);
  } catch (const Json::parse_error& e) {
    SourceLoc loc = location(text, e.byte);
    throw Error(ErrorKind::parse, render_at(file, text, loc, syntax_message(e.what())), loc);
  } catch (const JsonTooDeep& e) {
    throw Error(ErrorKind::parse, fmt::format("{}: error: a layout has no {}", file, e.what()));
  } catch (const Json::exception& e) {  // a number beyond the range of double
    throw Error(ErrorKind::parse, fmt::format("{}: error: {}", file, syntax_message(e.what())));
  }
  return Reader(file).read(root);
}

namespace {

// The tensors of a checkpoint, sorted by name. Its dtypes are ignored: they say nothing about a
// step's buffers.
LayoutFile layout_of_safetensors(const std::string& path) {
  TensorReader reader(path);
  LayoutFile layout{
      .name = std::filesystem::path(path).stem().string(), .source = path, .tensors = {}};
  for (const auto& [name, array] : reader.arrays()) {
    layout.tensors.push_back({.name = name,
                              .size = array.bytes / size_of(array.dtype),
                              .columns = columns_of(array.shape)});
  }
  return layout;
}

}  // namespace

LayoutFile read_layout_file(const std::string& path) {
  if (path.ends_with(".safetensors")) return layout_of_safetensors(path);
  return parse_layout(read_text_file(path), path);
}

LayoutFile single_tensor(uint64_t elements) {
  return {.name = "single", .source = "", .tensors = {{.name = "parameters", .size = elements}}};
}

LayoutFile squarest_matrix(uint64_t elements) {
  LayoutFile layout = single_tensor(elements);
  for (uint64_t rows = 2; rows * rows <= elements; ++rows) {
    if (elements % rows == 0) layout.tensors[0].columns = elements / rows;
  }
  return layout;
}

LayoutFile single_matrix(uint64_t elements) {
  constexpr uint64_t kSide = 128;  // rows and columns are multiples of it
  uint64_t columns = kSide;
  while (columns < 4096 && columns * columns < elements) columns *= 2;
  uint64_t rows = std::max<uint64_t>(1, elements / (columns * kSide)) * kSide;
  LayoutFile layout = single_tensor(rows * columns);
  layout.tensors[0].columns = columns;
  return layout;
}

Layout make_layout(const LayoutFile& file, const Program& program, const Bindings& bindings) {
  Layout layout;
  for (const TensorEntry& t : file.tensors) {
    TensorSpec spec{.name = t.name, .elements = t.size, .group = t.group, .columns = t.columns};
    for (const Buffer& b : program.buffers) {
      auto own = t.dtypes.find(b.name);
      auto bound = bindings.find(b.name);
      DType dtype = own != t.dtypes.end()     ? own->second
                    : bound != bindings.end() ? bound->second
                                              : b.dtypes.first();
      if (!b.dtypes.contains(dtype)) {
        throw Error(
            ErrorKind::bind,
            fmt::format("tensor '{}' of layout {}: @{} of step @{} cannot be stored as {}",
                        t.name.substr(0, 80), file.name, b.name, program.name, name(dtype)));
      }
      spec.dtypes.emplace(b.name, dtype);
    }
    layout.add(std::move(spec));
  }
  return layout;
}

}  // namespace stepfuse
