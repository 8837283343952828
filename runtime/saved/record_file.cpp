// Reads and writes records as safetensors files. Knows the record and the file format.
#include <fmt/format.h>

#include "runtime/files/json_text.hpp"
#include "runtime/files/safetensors.hpp"
#include "runtime/saved/record.hpp"
#include "runtime/tables/workspace.hpp"

namespace stepfuse {
namespace {

constexpr const char* kFormat = "stepfuse-record";
constexpr const char* kVersion = "2";

using Json = nlohmann::json;

// The contents of a file: first the heads, then the bytes in their order.
struct Contents {
  std::vector<ArrayHead> heads;
  std::vector<std::string> bytes;

  void add(std::string name, DType dtype, std::string content) {
    heads.push_back({std::move(name), dtype, content.size() / size_of(dtype)});
    bytes.push_back(std::move(content));
  }
  void add(std::string name, DType dtype, const std::vector<Bits>& values) {
    std::string content(values.size() * size_of(dtype), '\0');
    for (size_t i = 0; i < values.size(); ++i) {
      store_bits(&content[i * size_of(dtype)], dtype, values[i]);
    }
    add(std::move(name), dtype, std::move(content));
  }
};

std::vector<Bits> values_of(const TensorReader& file, const std::string& name, DType dtype,
                            uint64_t count) {
  std::string bytes = file.read(file.at(name, dtype, count));
  std::vector<Bits> values(count);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_bits(&bytes[i * size_of(dtype)], dtype);
  }
  return values;
}

// Adds the per-tensor facts, one array each. Returns the names.
std::string save_layout(const StepRecord& r, Contents& contents) {
  std::vector<Bits> size, offset, full_size, columns, id, group, present;
  Json names = Json::array();
  for (size_t t = 0; t < r.layout.size(); ++t) {
    const TensorSpec& spec = r.layout.tensors()[t];
    size.push_back(Bits::of(static_cast<int64_t>(spec.elements)));
    offset.push_back(Bits::of(static_cast<int64_t>(spec.offset)));
    full_size.push_back(Bits::of(static_cast<int64_t>(spec.full_elements)));
    columns.push_back(Bits::of(static_cast<int64_t>(spec.columns)));
    id.push_back({spec.id.value_or(static_cast<uint32_t>(t))});
    group.push_back(Bits::of(static_cast<int32_t>(spec.group)));
    present.push_back(Bits::of(r.present[t] != 0));
    names.push_back(spec.name);
  }
  contents.add("tensor.size", DType::i64, size);
  contents.add("tensor.offset", DType::i64, offset);
  contents.add("tensor.full_size", DType::i64, full_size);
  contents.add("tensor.columns", DType::i64, columns);
  contents.add("tensor.id", DType::i32, id);
  contents.add("tensor.group", DType::i32, group);
  contents.add("tensor.present", DType::boolean, present);
  return names.dump(-1, ' ', false, Json::error_handler_t::replace);
}

[[noreturn]] void refuse(const TensorReader& file, std::string_view why) {
  throw Error(ErrorKind::usage, fmt::format("{}: {}", file.path(), why));
}

// Reads the names, which a file may hold in any form.
std::vector<std::string> names_of(const TensorReader& file, size_t count) {
  constexpr const char* kNoList = "its tensor_names are not a list of names";
  const std::string& text = file.text("tensor_names");
  std::vector<std::string> names;
  try {
    names = parse_json(text).get<std::vector<std::string>>();
  } catch (const JsonTooDeep&) {
    refuse(file, kNoList);
  } catch (const Json::exception&) {
    refuse(file, kNoList);
  }
  if (names.size() != count) refuse(file, "its tensor_names are not one per tensor");
  return names;
}

void load_layout(const TensorReader& file, StepRecord& r) {
  // Limits on sizes that no array of the file confirms: elements of tensors without an array, and rows and
  // columns, because a step has an entry for each.
  constexpr uint64_t kMaxUnseen = uint64_t{1} << 28;
  constexpr uint64_t kMaxUnseenRows = uint64_t{1} << 20;
  size_t count = file.at("tensor.size").bytes / size_of(DType::i64);
  std::vector<Bits> size = values_of(file, "tensor.size", DType::i64, count);
  std::vector<Bits> offset = values_of(file, "tensor.offset", DType::i64, count);
  auto newer = [&](const char* name) {  // arrays that older records do not have
    return file.arrays().contains(name) ? values_of(file, name, DType::i64, count)
                                        : std::vector<Bits>(count);
  };
  std::vector<Bits> full_size = newer("tensor.full_size");
  std::vector<Bits> columns = newer("tensor.columns");
  std::vector<Bits> id;
  if (file.arrays().contains("tensor.id")) {
    id = values_of(file, "tensor.id", DType::i32, count);
  }
  std::vector<Bits> group = values_of(file, "tensor.group", DType::i32, count);
  std::vector<Bits> present = values_of(file, "tensor.present", DType::boolean, count);
  std::vector<std::string> names = names_of(file, count);
  r.buffers.assign(r.program.buffers.size(), std::vector<std::string>(count));
  uint64_t unseen = 0;
  uint64_t rows = 0;
  for (size_t t = 0; t < count; ++t) {
    TensorSpec spec{.name = names[t], .elements = static_cast<uint64_t>(size[t].i64())};
    spec.offset = static_cast<uint64_t>(offset[t].i64());
    spec.full_elements = static_cast<uint64_t>(full_size[t].i64());
    spec.columns = static_cast<uint64_t>(columns[t].i64());
    if (!id.empty()) spec.id = id[t].u32();
    spec.group = group[t].i32();
    r.present.push_back(present[t].b() ? 1 : 0);
    spec.present_by_gradient = r.present[t] == 0;  // as in capture()
    bool seen = spec.elements == 0;
    for (size_t b = 0; b < r.buffers.size(); ++b) {
      const Buffer& buffer = r.program.buffers[b];
      std::string name = fmt::format("buffer.{}.{}", buffer.name, t);
      const TensorReader::Array& array = file.at(name);
      if (!buffer.dtypes.contains(array.dtype)) {
        refuse(file, fmt::format("its array '{}' is {}, which @{} cannot be", name,
                                 stepfuse::name(array.dtype), buffer.name));
      }
      spec.dtypes[buffer.name] = array.dtype;
      // An absent gradient has no bytes, and neither has a buffer that the tensor does not have.
      bool absent = (buffer.name == r.gradient && r.present[t] == 0 && array.bytes == 0) ||
                    !buffer.is_of(spec.element_count());
      file.at(name, array.dtype, absent ? 0 : buffer.count(spec.elements, spec.column_count()));
      seen |= !absent;
      r.buffers[b][t] = file.read(array);
    }
    if (!seen) unseen += std::min(spec.elements, kMaxUnseen + 1);
    // The file has at least one byte per row and column, unless its arrays hold per-square values.
    uint64_t most = kMaxUnseenRows + file.size();
    if (has_rows(r.program)) {
      rows += std::min(spec.elements / std::max<uint64_t>(1, spec.column_count()), most + 1);
    }
    std::vector<Granularity> used = granularities_of(r.program);
    if (std::find(used.begin(), used.end(), per::column) != used.end()) {
      rows += std::min(spec.own_columns(), most + 1);
    }
    if (unseen > kMaxUnseen || rows > most)
      refuse(file, "its tensors are larger than anything in it");
    r.layout.add(std::move(spec));
  }
}

}  // namespace

void save_record(const std::string& path, const StepRecord& r) {
  Contents contents;
  std::string names = save_layout(r, contents);
  for (size_t b = 0; b < r.buffers.size(); ++b) {
    const std::string& buffer = r.program.buffers[b].name;
    for (size_t t = 0; t < r.layout.size(); ++t) {
      contents.add(fmt::format("buffer.{}.{}", buffer, t), r.layout.tensors()[t].dtypes.at(buffer),
                   r.buffers[b][t]);
    }
  }
  for (size_t i = 0; i < r.states.size(); ++i) {
    const State& s = r.program.states[i];
    contents.add("state." + s.name, s.type.dtype, r.states[i]);
  }
  for (size_t i = 0; i < r.args.size(); ++i) {
    const Arg& a = r.program.args[i];
    contents.add("arg." + a.name, a.type.dtype, r.args[i]);
  }
  TensorWriter file(path,
                    {{"format", kFormat},
                     {"version", kVersion},
                     {"program", print(r.program)},
                     {"form", std::string(name(r.form))},
                     {"gradient", r.gradient},
                     {"tensor_names", names},
                     {"index", std::to_string(r.index)}},
                    contents.heads, kPrivateFile);
  for (const std::string& bytes : contents.bytes) file.write(bytes.data(), bytes.size());
  file.finish();
}

StepRecord load_record(const std::string& path) {
  TensorReader file(path);
  auto is = [&](const char* key, std::string_view value) {
    auto it = file.metadata().find(key);
    return it != file.metadata().end() && it->second == value;
  };
  if (!is("format", kFormat) || !is("version", kVersion)) {
    refuse(file, "not a record of this version of stepfuse");
  }
  file.check_digest();
  StepRecord r;
  r.program = parse(file.text("program"), path);
  std::optional<Form> form = form_from_name(file.text("form"));
  if (!form) refuse(file, "its form is not fused, split or unfused");
  r.form = *form;
  r.gradient = file.text("gradient");
  r.index = file.number("index");
  load_layout(file, r);
  for (const State& s : r.program.states) {
    r.states.push_back(
        values_of(file, "state." + s.name, s.type.dtype, member_count(s.type.at, r.layout)));
  }
  for (const Arg& a : r.program.args) {
    r.args.push_back(
        values_of(file, "arg." + a.name, a.type.dtype, member_count(a.type.at, r.layout)));
  }
  return r;
}

}  // namespace stepfuse
