// A C interface on recipes for the comparison with PyTorch: Python hands in the addresses of
// tensors, one step of a backend runs over them. Knows everything.
#include <cstdint>
#include <memory>
#include <string>

#include "ir/error.hpp"
#include "ir/interpreter.hpp"
#include "ir/parser.hpp"
#include "ir/printer.hpp"
#include "ir/recipes/recipes.hpp"
#include "ir/semantics.hpp"
#include "ir/step_data.hpp"
#include "tests/torch/bridge/backend.hpp"

using namespace stepfuse;

namespace {

struct Bridge {
  Program program;
  std::unique_ptr<torch_check::Backend> backend;
  std::string text;
  StepData data;
};

thread_local std::string last_error;

template <class F>
int guarded(F&& f) {
  try {
    f();
    return 0;
  } catch (const std::exception& e) {
    last_error = e.what();
    return 1;
  }
}

// "grad=f16 master clip=l2" -> options
RecipeOptions parse_options(std::string text) {
  RecipeOptions options;
  while (!text.empty()) {
    std::string word = text.substr(0, text.find(' '));
    text.erase(0, word.size() + 1);
    if (word.empty()) continue;
    size_t equals = word.find('=');
    set_option(options, word.substr(0, equals),
               equals == std::string::npos ? "" : word.substr(equals + 1));
  }
  return options;
}

size_t members(const StepData& data, Domain d) {
  if (d == Domain::step) return 1;
  return d == Domain::group ? static_cast<size_t>(data.group_count) : data.tensors.size();
}

Bits from_double(double v, DType t) {
  return t == DType::boolean ? Bits::of(v != 0) : sem::cast(Bits::of(v), DType::f64, t);
}

int state_slot(const Bridge& b, const char* name) {
  int slot = b.program.find_state(name);
  if (slot < 0) throw Error(ErrorKind::usage, std::string("no state @") + name);
  return slot;
}

}  // namespace

extern "C" {

const char* sf_error() { return last_error.c_str(); }

// `step` is a recipe's name, or IR text that begins with "step" or a comment.
void* sf_open(const char* step, const char* options, const char* backend) {
  auto b = std::make_unique<Bridge>();
  int failed = guarded([&] {
    b->program = is_recipe(step) ? make_recipe(step, parse_options(options)) : parse(step);
    b->text = print(b->program);
    b->backend = torch_check::make_backend(backend, b->program);
  });
  return failed != 0 ? nullptr : b.release();
}
void sf_close(void* handle) { delete static_cast<Bridge*>(handle); }

const char* sf_text(void* handle) { return static_cast<Bridge*>(handle)->text.c_str(); }

// Sizes and groups of `count` tensors; states of the tensors known before are kept, those of new
// ones start from their initial value. dtypes: [tensor * buffers + buffer], as in DType.
int sf_layout(void* handle, int count, const int64_t* sizes, const int32_t* groups, int group_count,
              const int32_t* dtypes) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    const Program& p = b.program;
    b.data.group_count = group_count;
    b.data.tensors.resize(static_cast<size_t>(count));
    for (size_t t = 0; t < b.data.tensors.size(); ++t) {
      StepTensor& tensor = b.data.tensors[t];
      tensor.size = static_cast<uint64_t>(sizes[t]);
      tensor.group = groups[t];
      tensor.data.assign(p.buffers.size(), nullptr);
      tensor.dtypes.clear();
      for (size_t i = 0; i < p.buffers.size(); ++i) {
        tensor.dtypes.push_back(static_cast<DType>(dtypes[t * p.buffers.size() + i]));
      }
    }
    b.data.states.resize(p.states.size());
    for (size_t s = 0; s < p.states.size(); ++s) {
      b.data.states[s].resize(members(b.data, p.states[s].type.domain), p.states[s].initial);
    }
    b.data.args.resize(p.args.size());
    for (size_t a = 0; a < p.args.size(); ++a) {
      b.data.args[a].resize(members(b.data, p.args[a].type.domain),
                            p.args[a].fallback.value_or(Bits{}));
    }
    b.backend->layout(b.data);
  });
}

int sf_set_arg(void* handle, const char* name, int group, double value) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    int slot = b.program.find_arg(name);
    if (slot < 0) throw Error(ErrorKind::usage, std::string("no arg %") + name);
    auto i = static_cast<size_t>(slot);
    b.data.args[i].at(static_cast<size_t>(group)) =
        from_double(value, b.program.args[i].type.dtype);
  });
}

int sf_set_state(void* handle, const char* name, int member, double value) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    auto i = static_cast<size_t>(state_slot(b, name));
    b.data.states[i].at(static_cast<size_t>(member)) =
        from_double(value, b.program.states[i].type.dtype);
  });
}

double sf_get_state(void* handle, const char* name, int member) {
  auto& b = *static_cast<Bridge*>(handle);
  double value = 0;
  guarded([&] {
    auto i = static_cast<size_t>(state_slot(b, name));
    Bits bits = b.data.states[i].at(static_cast<size_t>(member));
    DType t = b.program.states[i].type.dtype;
    value = t == DType::boolean ? (bits.b() ? 1.0 : 0.0) : sem::cast(bits, t, DType::f64).f64();
  });
  return value;
}

// Index of a buffer, or -1.
int sf_buffer(void* handle, const char* name) {
  return static_cast<Bridge*>(handle)->program.find_buffer(name);
}
int sf_buffer_count(void* handle) {
  return static_cast<int>(static_cast<Bridge*>(handle)->program.buffers.size());
}
// The declared storage type of a buffer; -1 where it may be several.
int sf_buffer_dtype(void* handle, int buffer) {
  DTypeSet set =
      static_cast<Bridge*>(handle)->program.buffers.at(static_cast<size_t>(buffer)).dtypes;
  return set.size() == 1 ? static_cast<int>(set.only()) : -1;
}

// pointers: [tensor * buffers + buffer]; present: [tensor].
int sf_run(void* handle, void* const* pointers, const uint8_t* present) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    size_t buffers = b.program.buffers.size();
    for (size_t t = 0; t < b.data.tensors.size(); ++t) {
      StepTensor& tensor = b.data.tensors[t];
      tensor.present = present[t] != 0;
      for (size_t i = 0; i < buffers; ++i) tensor.data[i] = pointers[t * buffers + i];
    }
    b.backend->run(b.program, b.data);
  });
}
}
