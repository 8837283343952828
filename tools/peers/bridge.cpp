// A C interface on the public API for the comparison with PyTorch: Python hands in the addresses of
// tensors, one step runs over them. Knows everything.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/step/numbers.hpp"

using namespace stepfuse;

namespace {

struct Bridge {
  Program program;
  std::string text;
  Device device = Device::interpreter();
  StepOptions options;
  std::unique_ptr<LossScaler> own_scaler;
  std::optional<Step> step;
  std::optional<Args> args;
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

// "interpret", "cpu[:form[:level[:threads]]]" or "cuda[:form]", as in "cpu:unfused" or
// "cpu:fused:host:2". CUDA is the current context's device, else the first.
void choose_backend(Bridge& b, std::string text) {
  auto next = [&text](const std::string& otherwise) {
    std::string word = text.substr(0, text.find(':'));
    text.erase(0, word.size() + 1);
    return word.empty() ? otherwise : word;
  };
  std::string kind = next("");
  std::string form = next("fused");
  std::string level = next("host");
  int threads = std::stoi(next("1"));
  auto known = form_from_name(form);
  if (!known) throw Error(ErrorKind::usage, "there is no form '" + form + "'");
  b.options.form = *known;
  if (kind == "cpu") b.device = Device::cpu(threads, level);
  if (kind == "cuda") b.device = Device::cuda();
}

const State& find_state(const Bridge& b, const char* name) {
  int slot = b.program.find_state(name);
  if (slot < 0) throw Error(ErrorKind::usage, std::string("no state @") + name);
  return b.program.states[static_cast<size_t>(slot)];
}

// Specs of tensors [first, count); dtypes: [tensor * buffers + buffer], as in DType.
std::vector<TensorSpec> make_specs(const Bridge& b, size_t first, size_t count,
                                   const int64_t* sizes, const int64_t* columns,
                                   const int32_t* groups, const int32_t* dtypes) {
  std::vector<TensorSpec> specs;
  size_t buffers = b.program.buffers.size();
  for (size_t t = first; t < count; ++t) {
    TensorSpec spec{.name = "t" + std::to_string(t), .size = static_cast<uint64_t>(sizes[t])};
    spec.group = groups[t];
    spec.columns = static_cast<uint64_t>(columns[t]);
    for (size_t i = 0; i < buffers; ++i) {
      const Buffer& buffer = b.program.buffers[i];
      if (buffer.dtypes.size() > 1) {
        spec.dtypes[buffer.name] = static_cast<DType>(dtypes[t * buffers + i]);
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

extern "C" {

const char* sf_error() { return last_error.c_str(); }
uint64_t sf_compiled() { return cache_stats().compiled; }

void* sf_scaler_new(double init_scale) {
  void* scaler = nullptr;
  guarded([&] { scaler = new LossScaler({.init_scale = static_cast<float>(init_scale)}); });
  return scaler;
}
void sf_scaler_free(void* scaler) { delete static_cast<LossScaler*>(scaler); }
double sf_scaler_read(void* scaler, const char* state) {
  double value = 0;
  guarded([&] { value = static_cast<LossScaler*>(scaler)->read(state); });
  return value;
}
int sf_save(void* handle, const char* path) {
  return guarded([&] { save_checkpoint(path, *static_cast<Bridge*>(handle)->step); });
}
int sf_load(void* handle, const char* path) {
  return guarded([&] { load_checkpoint(path, *static_cast<Bridge*>(handle)->step); });
}
int sf_scaler_write(void* scaler, const char* state, double value) {
  return guarded([&] { static_cast<LossScaler*>(scaler)->write(state, value); });
}

// `step` is a recipe's name, an optimizer's formula or IR text; `scaler` may be null: the step then
// has one of its own.
void* sf_open(const char* step, const char* options, const char* backend, void* scaler) {
  auto b = std::make_unique<Bridge>();
  int failed = guarded([&] {
    std::string_view what = step;
    bool is_ir = what.find("step @") != std::string_view::npos;
    b->program = is_recipe(what) ? make_recipe(what, parse_options(options))
                 : is_ir         ? parse(what)
                                 : make_recipe(parse_optimizer(what), parse_options(options));
    b->text = print(b->program);
    choose_backend(*b, backend);
    if (scaler == nullptr) b->own_scaler = std::make_unique<LossScaler>();
    b->options.scaler = scaler == nullptr ? b->own_scaler.get() : static_cast<LossScaler*>(scaler);
  });
  return failed != 0 ? nullptr : b.release();
}
void sf_close(void* handle) { delete static_cast<Bridge*>(handle); }

const char* sf_text(void* handle) { return static_cast<Bridge*>(handle)->text.c_str(); }

// The tensors so far; later calls append those that are new.
int sf_layout(void* handle, int count, const int64_t* sizes, const int64_t* columns,
              const int32_t* groups, const int32_t* dtypes) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    size_t known = b.step ? b.step->layout().size() : 0;
    auto specs = make_specs(b, known, static_cast<size_t>(count), sizes, columns, groups, dtypes);
    if (b.step) {
      for (TensorSpec& spec : specs) b.step->append(std::move(spec));
    } else {
      Layout layout;
      for (TensorSpec& spec : specs) layout.add(std::move(spec));
      b.step.emplace(b.program, std::move(layout), b.device, b.options);
    }
    b.step->prepare();
    b.step->adopt_state();  // who drives this says what the arrays begin with
    b.args.emplace(b.step->make_args());
  });
}

int sf_bind(void* handle, const char* buffer, void* const* pointers) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] { b.step->bind(buffer, {pointers, b.step->layout().size()}); });
}
int sf_init_state(void* handle) {
  return guarded([&] { static_cast<Bridge*>(handle)->step->init_state(); });
}

// `group` is -1 for all groups.
int sf_set_arg(void* handle, const char* name, int group, double value) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    if (group < 0) {
      b.args->set(name, value);
    } else {
      b.args->set(name, group, value);
    }
  });
}

int sf_set_state(void* handle, const char* name, int member, double value) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    const State& state = find_state(b, name);
    auto values = b.step->read_state(name);
    values.at(static_cast<size_t>(member)) = to_bits(value, state.type.dtype, name);
    b.step->write_state(name, values);
  });
}

int sf_get_state(void* handle, const char* name, int member, double* value) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    const State& state = find_state(b, name);
    *value = to_double(b.step->read_state(name).at(static_cast<size_t>(member)), state.type.dtype);
  });
}

// The number of a storage type, or -1.
int sf_dtype(const char* name) {
  auto dtype = dtype_from_name(name);
  return dtype ? static_cast<int>(*dtype) : -1;
}
const char* sf_buffer_name(void* handle, int buffer) {
  return static_cast<Bridge*>(handle)->program.buffers.at(static_cast<size_t>(buffer)).name.c_str();
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
  const auto& buffers = static_cast<Bridge*>(handle)->program.buffers;
  DTypeSet set = buffers.at(static_cast<size_t>(buffer)).dtypes;
  return set.size() == 1 ? static_cast<int>(set.only()) : -1;
}

// One gradient per tensor, null where it has none; no array for a step without gradients.
int sf_run(void* handle, void* const* gradients, void* stream) {
  auto& b = *static_cast<Bridge*>(handle);
  return guarded([&] {
    size_t count = gradients == nullptr ? 0 : b.step->layout().size();
    b.step->run({gradients, count}, *b.args, stream);
  });
}
}
