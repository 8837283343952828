// Records as safetensors files. Knows the record and the file format.
#include <fmt/format.h>

#include "runtime/record.hpp"
#include "runtime/safetensors.hpp"

namespace stepfuse {
namespace {

constexpr const char* kFormat = "stepfuse-record";
constexpr const char* kVersion = "1";

NamedArray to_array(DType dtype, const std::vector<Bits>& values) {
  NamedArray array{dtype, {values.size()}, std::string(values.size() * size_of(dtype), '\0')};
  for (size_t i = 0; i < values.size(); ++i) {
    store_bits(&array.bytes[i * size_of(dtype)], dtype, values[i]);
  }
  return array;
}

std::vector<Bits> from_array(const NamedArray& array) {
  std::vector<Bits> values(array.bytes.size() / size_of(array.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_bits(&array.bytes[i * size_of(array.dtype)], array.dtype);
  }
  return values;
}

// The per-tensor facts, one array each.
void save_layout(const StepRecord& r, TensorFile& file) {
  std::vector<Bits> size, offset, group, present;
  std::string names;
  for (size_t t = 0; t < r.layout.size(); ++t) {
    const TensorSpec& spec = r.layout.tensors()[t];
    size.push_back(Bits::of(static_cast<int64_t>(spec.size)));
    offset.push_back(Bits::of(static_cast<int64_t>(spec.offset)));
    group.push_back(Bits::of(static_cast<int32_t>(spec.group)));
    present.push_back(Bits::of(r.present[t] != 0));
    names += spec.name + '\n';
  }
  file.arrays["tensor.size"] = to_array(DType::i64, size);
  file.arrays["tensor.offset"] = to_array(DType::i64, offset);
  file.arrays["tensor.group"] = to_array(DType::i32, group);
  file.arrays["tensor.present"] = to_array(DType::boolean, present);
  file.metadata["tensor_names"] = names;
}

void load_layout(const TensorFile& file, StepRecord& r) {
  std::vector<Bits> size = from_array(file.arrays.at("tensor.size"));
  size_t count = size.size();
  std::vector<Bits> offset = from_array(file.at("tensor.offset", DType::i64, count));
  std::vector<Bits> group = from_array(file.at("tensor.group", DType::i32, count));
  std::vector<Bits> present = from_array(file.at("tensor.present", DType::boolean, count));
  std::string_view names = file.metadata.at("tensor_names");
  r.buffers.assign(r.program.buffers.size(), std::vector<std::string>(count));
  for (size_t t = 0; t < count; ++t) {
    TensorSpec spec{.size = static_cast<uint64_t>(size[t].i64())};
    spec.offset = static_cast<uint64_t>(offset[t].i64());
    spec.group = group[t].i32();
    spec.name = names.substr(0, names.find('\n'));
    names.remove_prefix(std::min(names.size(), spec.name.size() + 1));
    r.present.push_back(present[t].b() ? 1 : 0);
    for (size_t b = 0; b < r.buffers.size(); ++b) {
      const std::string& name = r.program.buffers[b].name;
      const NamedArray& array = file.arrays.at(fmt::format("buffer.{}.{}", name, t));
      spec.dtypes[name] = array.dtype;
      r.buffers[b][t] = array.bytes;
      if (!array.bytes.empty()) {
        file.at(fmt::format("buffer.{}.{}", name, t), array.dtype, spec.size);
      }
    }
    r.layout.add(std::move(spec));
  }
}

}  // namespace

void save_record(const std::string& path, const StepRecord& r) {
  TensorFile file;
  file.metadata = {{"format", kFormat},
                   {"version", kVersion},
                   {"program", print(r.program)},
                   {"form", std::string(name(r.form))},
                   {"index", std::to_string(r.index)}};
  save_layout(r, file);
  for (size_t b = 0; b < r.buffers.size(); ++b) {
    const std::string& buffer = r.program.buffers[b].name;
    for (size_t t = 0; t < r.layout.size(); ++t) {
      DType d = r.layout.tensors()[t].dtypes.at(buffer);
      const std::string& bytes = r.buffers[b][t];
      file.arrays[fmt::format("buffer.{}.{}", buffer, t)] = {d, {bytes.size() / size_of(d)}, bytes};
    }
  }
  for (size_t i = 0; i < r.states.size(); ++i) {
    const State& s = r.program.states[i];
    file.arrays["state." + s.name] = to_array(s.type.dtype, r.states[i]);
  }
  for (size_t i = 0; i < r.args.size(); ++i) {
    const Arg& a = r.program.args[i];
    file.arrays["arg." + a.name] = to_array(a.type.dtype, r.args[i]);
  }
  write_tensor_file(path, file);
}

StepRecord load_record(const std::string& path) try {
  TensorFile file = read_tensor_file(path);
  if (file.metadata["format"] != kFormat || file.metadata["version"] != kVersion) {
    throw Error(ErrorKind::usage, path + ": not a record of this version of stepfuse");
  }
  StepRecord r;
  r.program = parse(file.metadata.at("program"), path);
  r.form = form_from_name(file.metadata.at("form")).value_or(Form::fused);
  r.index = std::stoull(file.metadata.at("index"));
  load_layout(file, r);
  for (const State& s : r.program.states) {
    r.states.push_back(from_array(file.arrays.at("state." + s.name)));
  }
  for (const Arg& a : r.program.args) {
    r.args.push_back(from_array(file.arrays.at("arg." + a.name)));
  }
  return r;
} catch (const std::out_of_range&) {
  throw Error(ErrorKind::usage, path + ": an array or a field of the record is missing");
} catch (const std::invalid_argument&) {
  throw Error(ErrorKind::usage, path + ": a field of the record is not a number");
}

}  // namespace stepfuse
