// Converts a checkpoint's moments from one form to another, file to file. Knows ir and the files.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/format.hpp>
#include <stepfuse/recipe_options.hpp>

#include "ir/formula/built_in.hpp"
#include "ir/formula/resolve.hpp"
#include "ir/semantics/interpreter.hpp"
#include "ir/text/words.hpp"
#include "runtime/files/safetensors.hpp"
#include "runtime/saved/checkpoint_names.hpp"

namespace stepfuse {
namespace {

constexpr uint64_t kPortion = uint64_t{1} << 18;  // elements at a time; a multiple of every block

// The new form of each moment, by its name.
using Forms = std::map<std::string, StoredMoment, std::less<>>;

Forms forms_of(const Moments& chosen, const std::string& step, uint64_t below) {
  if (below != 0 && !chosen.has_format()) {
    throw Error(ErrorKind::usage,
                "--moments-below exempts small tensors from a format; add one, as in "
                "--moments=dyn8");
  }
  std::vector<std::string> every;
  for (const auto& f : formula::built_in_formulas()) {
    if (f->name == step) every = formula::moments_of(*f);
  }
  Forms forms;
  for (const StoredMoment& entry : chosen.entries()) {
    if (!entry.moment.empty()) {
      forms[entry.moment] = entry;
      continue;
    }
    if (every.empty()) {
      throw Error(ErrorKind::usage,
                  fmt::format("@{} is not a built-in optimizer: name the moments to convert, as in "
                              "exp_avg={}",
                              step, entry.form));
    }
    for (const std::string& name : every) forms.try_emplace(name, entry);
  }
  return forms;
}

// Returns the form of a moment that is stored as one plain array.
std::string form_of(const TensorReader::Array& array) { return std::string(name(array.dtype)); }

// A moment of one tensor in the file, and its new form.
struct Moment {
  std::string name;    // exp_avg
  std::string tensor;  // the tensor's number
  std::string from;
  std::string to;
  uint64_t elements = 0;

  // Returns the name of one of the moment's arrays. `buffer` is `from.fp8.code` or `to` of the conversion.
  std::string array(std::string_view buffer) const {
    return fmt::format("buffer.{}{}.{}", name,
                       buffer.substr(std::min(buffer.size(), buffer.find('.'))), tensor);
  }
};

// An array of the new file: a copy, or a buffer that a conversion makes.
struct Output {
  ArrayHead head;
  const Moment* moment = nullptr;
  std::string buffer;
};

class Conversion {
 public:
  // Tensors with fewer than `below` elements get f32.
  Conversion(const TensorReader& file, const Forms& forms, uint64_t below) : file_(file) {
    std::vector<uint64_t> sizes = sizes_of(file.text("layout"));
    std::vector<uint64_t> full_sizes = full_sizes_of(file);
    for (const auto& [array, stored] : file.arrays()) {
      BufferName at = buffer_name(array);
      auto form = forms.find(at.moment);
      if (at.moment.empty() || form == forms.end()) continue;
      used_.insert(form->first);
      uint64_t tensor = parse_number<uint64_t>(at.tensor).value_or(sizes.size());
      if (tensor >= sizes.size()) fail(array, "belongs to no tensor of the layout");
      std::string from = at.form.empty() ? form_of(stored) : std::string(at.form);
      bool is_small = full_sizes[tensor] < form->second.from.value_or(below);
      std::string to = is_small ? "f32" : form->second.form;
      if (from == to) continue;
      moments_.try_emplace(
          {std::string(at.moment), std::string(at.tensor)},
          Moment{std::string(at.moment), std::string(at.tensor), from, to, sizes[tensor]});
    }
    for (const auto& [array, stored] : file.arrays()) {
      BufferName at = buffer_name(array);
      if (moments_.contains({std::string(at.moment), std::string(at.tensor)})) continue;
      outputs_.push_back(
          {{array, stored.dtype, stored.bytes / size_of(stored.dtype)}, nullptr, ""});
    }
    for (const auto& [key, m] : moments_) {
      const Program& p = program(m);
      for (const Buffer& b : p.buffers) {
        if (b.access != Access::out) {
          file.at(m.array(b.name), b.dtypes.only(), b.count(m.elements, m.elements));
        } else {
          outputs_.push_back(
              {{m.array(b.name), b.dtypes.only(), b.count(m.elements, m.elements)}, &m, b.name});
        }
      }
    }
    std::sort(outputs_.begin(), outputs_.end(),
              [](const Output& a, const Output& b) { return a.head.name < b.head.name; });
  }

  // Returns the names of those forms for which the file has moments.
  const std::set<std::string>& used() const { return used_; }

  void write(const std::string& path, const TensorMetadata& metadata) {
    std::vector<ArrayHead> heads;
    for (const Output& o : outputs_) heads.push_back(o.head);
    TensorWriter out(path, metadata, heads);
    for (const Output& o : outputs_) {
      uint64_t elements = o.moment != nullptr ? o.moment->elements : o.head.elements;
      for (uint64_t at = 0; at < elements; at += kPortion) {
        uint64_t n = std::min(kPortion, elements - at);
        if (o.moment != nullptr) {
          convert(out, o, at, n);
        } else {
          copy(out, o, at, n);
        }
      }
    }
    out.finish();
  }

 private:
  [[noreturn]] void fail(const std::string& array, const char* what) const {
    throw Error(ErrorKind::usage,
                fmt::format("{}: '{}' {}", file_.path(), array.substr(0, 80), what));
  }
  // Parses "3000:0 33:16384#4": elements, the offset of a shard, and an id.
  static std::vector<uint64_t> sizes_of(const std::string& layout) {
    return numbers_of(layout, [](uint64_t size, uint64_t) { return size; });
  }
  std::vector<uint64_t> full_sizes_of(const TensorReader& file) const {
    auto known = file.metadata().find("full_sizes");
    bool says = known != file.metadata().end();
    auto behind = [](uint64_t size, uint64_t offset) { return offset + size; };
    std::vector<uint64_t> sizes = numbers_of(says ? known->second : file.text("layout"), behind);
    if (sizes.size() != sizes_of(file.text("layout")).size()) {
      throw Error(ErrorKind::usage,
                  fmt::format("{}: its full_sizes are not one for each tensor", file.path()));
    }
    return sizes;
  }
  template <class Make>
  static std::vector<uint64_t> numbers_of(const std::string& words, Make&& make) {
    std::vector<uint64_t> numbers;
    for (std::string_view word : split(words, " ")) {
      std::vector<std::string_view> parts = split(word, ":#");
      parts.resize(2);
      numbers.push_back(make(parse_number<uint64_t>(parts[0]).value_or(0),
                             parse_number<uint64_t>(parts[1]).value_or(0)));
    }
    return numbers;
  }
  const Program& program(const Moment& m) {
    auto [it, made] = programs_.try_emplace({m.from, m.to});
    if (made) it->second = conversion(m.from, m.to);
    return it->second;
  }

  void copy(TensorWriter& out, const Output& o, uint64_t at, uint64_t n) {
    size_t each = size_of(o.head.dtype);
    bytes_.resize(n * each);
    file_.read(file_.at(o.head.name), at * each, bytes_.data(), bytes_.size());
    out.write(bytes_.data(), bytes_.size());
  }

  // Converts elements [at, at + n) of a moment and writes one of its buffers. The arrays of a file are
  // written one after the other, so each buffer takes a pass of its own.
  void convert(TensorWriter& out, const Output& o, uint64_t at, uint64_t n) {
    const Program& p = program(*o.moment);
    std::vector<std::vector<char>> arrays;
    StepTensor tensor{.size = n, .data = {}, .dtypes = {}};
    size_t wanted = 0;
    for (const Buffer& b : p.buffers) {
      DType dtype = b.dtypes.only();
      if (b.name == o.buffer) wanted = arrays.size();
      arrays.emplace_back(b.count(n, n) * size_of(dtype));
      if (b.access != Access::out) {
        file_.read(file_.at(o.moment->array(b.name)), b.count(at, n) * size_of(dtype),
                   arrays.back().data(), arrays.back().size());
      }
      tensor.data.push_back(arrays.back().data());
      tensor.dtypes.push_back(dtype);
    }
    StepData data;
    data.tensors.push_back(tensor);
    interpret(p, data);
    out.write(arrays[wanted].data(), arrays[wanted].size());
  }

  const TensorReader& file_;
  std::map<std::pair<std::string, std::string>, Moment> moments_;
  std::map<std::pair<std::string, std::string>, Program> programs_;
  std::vector<Output> outputs_;
  std::set<std::string> used_;
  std::vector<char> bytes_;
};

}  // namespace

void convert_checkpoint(const std::string& from, const std::string& to, std::string_view moments,
                        uint64_t below) {
  TensorReader file(from);
  check_is_checkpoint(file);
  file.check_digest();
  Moments chosen(moments);  // which says what there is
  Forms forms = forms_of(chosen, file.text("step"), below);
  Conversion conversion(file, forms, below);
  bool whole = std::any_of(chosen.entries().begin(), chosen.entries().end(),
                           [](const StoredMoment& e) { return e.moment.empty(); });
  for (const auto& [moment, form] : forms) {
    if (conversion.used().contains(moment) || (whole && !conversion.used().empty())) continue;
    std::set<std::string> have;
    for (const auto& [array, stored] : file.arrays()) {
      if (!buffer_name(array).moment.empty()) have.emplace(buffer_name(array).moment);
    }
    throw Error(ErrorKind::usage, fmt::format("{} has no moment '{}'; it has {}", from, moment,
                                              fmt::join(have, ", ")));
  }
  conversion.write(to, file.metadata());
}

}  // namespace stepfuse
