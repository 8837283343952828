// The public API of stepfuse: everything between backward() and the next forward() as one kernel.
// Knows the ir; what touches a machine is behind it.
//
//   namespace sf = stepfuse;
//   sf::Layout layout;                                    // sizes, groups, dtypes; no pointers
//   for (auto& p : params) layout.add({.name = p.name, .size = p.size, .group = p.decay ? 0 : 1});
//
//   sf::LossScaler scaler;                                // several steps may share it
//   sf::Step step(sf::make_recipe("adamw", {.grad = sf::DType::f16, .master = true,
//                                           .loss_scale = sf::LossScale::dynamic,
//                                           .clip = sf::Clip::l2}),   // or sf::parse(text)
//                 layout, sf::Device::cpu(), {.scaler = &scaler});
//   step.prepare();                                       // compiles; run() never compiles
//   step.bind("weight", weights);                         // one pointer per tensor; must stay alive
//   step.init_state();                                    // sets moments to zero; never implicit
//   sf::Args args = step.make_args();
//   sf::ArgId lr = step.arg("lr");
//   for (...) {
//     args.set(lr, schedule(i));
//     step.run(gradients, args);                          // nullptr: no gradient this step
//   }
//
// Errors: a mistake of the caller throws stepfuse::Error, whose kind() and text say what is wrong and what to
// do. Buffers, states and tables are then unchanged. Sizes are in elements, memory is in bytes.
// Threads: use a Step from one thread at a time. Different Steps are independent. Steps that share a
// LossScaler are, too, but the caller orders their runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <stepfuse/error.hpp>
#include <stepfuse/form.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/program.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/types.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A CUstream (cudaStream_t); null is the legacy stream. The CPU ignores it and has finished on return.
using Stream = void*;

// One pointer per tensor, as a vector<float*>, span<float* const>, array of pointers, or {{a, b}}. It is a
// view, like a span.
class Pointers : public std::span<void* const> {
 public:
  using std::span<void* const>::span;
  Pointers() = default;
  Pointers(std::span<void* const> pointers) : std::span<void* const>(pointers) {}  // NOLINT
  // Every compiler lets a void* be read where a pointer to an object stands.
  template <std::ranges::contiguous_range R>
    requires(std::is_pointer_v<std::ranges::range_value_t<R>> &&
             std::is_object_v<std::remove_pointer_t<std::ranges::range_value_t<R>>> &&
             !std::is_const_v<std::remove_pointer_t<std::ranges::range_value_t<R>>>)
  Pointers(const R& pointers)  // NOLINT
      : std::span<void* const>(reinterpret_cast<void* const*>(std::ranges::data(pointers)),
                               std::ranges::size(pointers)) {}
};

// --- layout

struct TensorSpec {
  std::string name = {};  // for messages; may be empty
  uint64_t size = 0;      // elements; 0 is allowed
  int group = 0;          // parameter group, from 0
  // Position of a shard's first element in the full tensor, in elements; 0 for whole tensors. It must be a
  // multiple of 16,384, so that all shards together give one device's bits.
  uint64_t offset = 0;
  // Elements of the full tensor, for steps that use element counts. 0 means that the full tensor ends where
  // this one ends; such a step then refuses a shard with an offset.
  uint64_t full_size = 0;
  // Elements of one row, for steps with rows: the product of all dimensions but the first. 0 means that the
  // tensor is one row. The full tensor must be a whole number of rows.
  uint64_t columns = 0;
  // Identifies the tensor's random numbers; the default is its number in the layout. Ranks that hold
  // different tensors, or shards of one, must give each tensor the same id on every rank.
  std::optional<uint32_t> id = {};
  // For recipes with tensor_flags: whether the tensor counts in norm and finite check, and whether it is
  // updated. A duplicate of another rank's tensor is not counted.
  bool counted = true;
  bool updated = true;
  // Storage type per buffer name; needed only for buffers that the step declares with several types.
  std::map<std::string, DType> dtypes = {};

  uint64_t element_count() const { return full_size != 0 ? full_size : offset + size; }
  uint64_t column_count() const { return columns != 0 ? columns : element_count(); }
  uint64_t row_count() const {
    return size == 0 ? 0 : (size + column_count() - 1) / column_count();
  }
  uint64_t own_columns() const { return size == 0 ? 0 : column_count(); }
};

class Layout {
 public:
  Layout& add(TensorSpec tensor);              // throws Error{bind}
  void check(const TensorSpec& tensor) const;  // throws what add() would
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  size_t size() const { return tensors_.size(); }
  int group_count() const { return group_count_; }  // highest group + 1, at least 1
  // Makes room for at least `groups` groups, to which set_group() may move tensors.
  Layout& reserve_groups(int count);
  // Throws Error{bind} if the tensor or group does not exist.
  Layout& set_group(size_t tensor, int group);
  uint64_t element_count() const { return elements_; }

 private:
  std::vector<TensorSpec> tensors_;
  int group_count_ = 1;
  uint64_t elements_ = 0;
};

// --- device

class Device {
 public:
  enum class Kind : uint8_t { cpu, interpreter, cuda };
  // Compiled by LLVM, run by `threads` threads (0: all that the process may use). `level` is "host"
  // or one of "x86-64", "x86-64-v3", "x86-64-v4"; prepare() refuses a level that this processor lacks.
  static Device cpu(int threads = 0, std::string level = "host");
  // The interpreter, which defines the language. It is slow; use it for tests and bisecting.
  static Device interpreter() { return Device(Kind::interpreter); }
  // Uses the calling thread's current context if it belongs to this device, else the device's primary one.
  // Making a step on it throws Error{device} if there is no driver. `options` tune the kernels, as in
  // "unroll=2,cache=streaming" (docs/cuda.md), and change no bit; options that are not named are chosen.
  // Throws Error{usage} for unknown names.
  static Device cuda(int ordinal = 0, std::string options = {});

  Kind kind() const { return kind_; }
  int threads() const { return threads_; }
  const std::string& level() const { return level_; }
  int ordinal() const { return ordinal_; }
  const std::string& options() const { return options_; }

 private:
  explicit Device(Kind kind) : kind_(kind) {}
  Kind kind_;
  int threads_ = 0;
  int ordinal_ = 0;
  std::string level_;
  std::string options_;
};

// Allocates a step's own memory. Called at construction, after append(), by init_state() and
// destruction, never by run(); with the context of the step's device current.
struct Allocator {
  // Returns memory of the step's device, aligned to at least 256 bytes and usable on `stream`, or null if
  // there is none.
  std::function<void*(size_t bytes, Stream stream)> allocate = {};
  std::function<void(void* memory, size_t bytes, Stream stream)> release = {};
};

// --- loss scaling

// The states on the device that several steps share (`state @x … shared`): the loss scale and its tracker.
// All steps of one scaler are on one device. The scaler must outlive them.
class LossScaler {
 public:
  struct Options {
    double init_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    int growth_interval = 2000;
  };
  LossScaler() : LossScaler(Options{}) {}
  explicit LossScaler(const Options& options);
  ~LossScaler();
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;

  const Options& options() const { return options_; }
  // The address of the scale on the device, for multiplying the loss. Valid once a step uses the scaler.
  const float* device_scale() const;
  // Waits for the device. Returns the initial value if no step uses the scaler yet.
  double read(std::string_view state = "scale") const;
  // GradScaler.update(new_scale): call it after run(). It replaces the scale that the run left, and resets the
  // trackers to their values before the run, which then counts neither as good nor as bad.
  void update(double new_scale);
  // Sets one state to a value; write("scale", s) does not change the trackers. A scale must be positive and
  // finite.
  void write(std::string_view state, double value);

  class Shared;
  Shared& shared() const { return *shared_; }

 private:
  Options options_;
  std::unique_ptr<Shared> shared_;
};

// --- arguments

// Index of an argument of one step. Look it up once with Step::arg().
struct ArgId {
  int32_t index = -1;
};

// The hyperparameters of one run: a value that is cheap to change and belongs to the step that made it.
class Args {
 public:
  // Sets the argument for all groups or tensors, or with `member` for one group or tensor. Integers and bools
  // are converted exactly. Throws Error{usage} for a fraction in an integer argument, a group or tensor that
  // does not exist, or a value that a recipe's argument cannot have, such as lr NaN or accumulation 0 (see
  // StepOptions::check_args).
  void set(ArgId arg, double value);
  void set(ArgId arg, int member, double value);
  void set(std::string_view name, double value);
  void set(std::string_view name, int member, double value);
  double get(ArgId arg, int member = 0) const;

 private:
  friend class Step;
  struct Shape;  // names and types of the arguments, shared with the step
  explicit Args(std::shared_ptr<const Shape> shape);
  const Shape& shape() const;
  ArgId checked(ArgId arg) const;
  uint64_t& slot(ArgId arg, int member);
  std::shared_ptr<const Shape> shape_;
  std::vector<uint64_t> words_;  // as in DeviceArgs
};

// Arguments in device memory (on the CPU in ordinary memory), which may be computed there: args_bytes() bytes at
// an address aligned to 8. They are words of 8 bytes in this order: the step-domain arguments as declared,
// the group-domain arguments of each group from 0 on, then those of each tensor. A value is in the low bytes
// of its word in its own type (f64, f32, i64, i32; a bool is 0 or 1), and the other bytes are 0. The step
// reads them when it executes, so they must stay until then.
struct DeviceArgs {
  const void* block = nullptr;
};

// --- statistics

// The reports of one finished step.
struct StepStats {
  uint64_t index = 0;  // 0 is the first run; load_checkpoint() continues from the saved number
  std::vector<std::pair<std::string, double>> values;
  // Reports per group or tensor, such as grad_norm with clip_per_group.
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  double at(std::string_view report) const;                 // throws Error{usage} if there is none
  double at(std::string_view report, size_t member) const;  // of a group or tensor
  std::optional<double> find(std::string_view report) const;
  const std::vector<double>* find_list(std::string_view report) const;  // null if there is none
};

// --- between the phases

// A reduction over elements, whose result the rest of the step uses.
struct Partial {
  std::string name;  // of its value in the program: "sum"
  Op op = Op::reduce_add;
  DType dtype = DType::f32;
  size_t count = 1;              // 1, groups or tensors
  size_t offset = 0;             // bytes from the block's start: `count` values of dtype
  const void* pieces = nullptr;  // inputs of the fold: one value of dtype per piece of
  size_t piece_count = 0;  // 16,384 elements, in bound order; valid from observe() of all tensors
                           // until reduce() or run()
  // True for the norm and the check, which the program computes before `stage optimizer`; false for
  // reductions of the optimizer's own formula. True for all reductions if there is no such stage.
  bool pipeline = true;
};

// The results of reduce(), as one block in device memory; f32 first. Norm and check of a recipe made with
// all_reduce are f32 sums (maxima with Clip::inf), so that one all-reduce of bytes / 4 values serves both. A
// formula that reduces for itself may leave others among them: each is exchanged by its own `op`.
struct Partials {
  void* block = nullptr;
  size_t bytes = 0;
  std::vector<Partial> all;
  const Partial& at(std::string_view name) const;  // throws Error{usage} if there is none
};

// --- step

struct CompileReport {
  std::string key;  // readable text from which the cache key is hashed
  bool from_memory_cache = false;
  bool from_disk_cache = false;
  bool from_kernel_folder = false;  // see use_kernels()
  double passes_ms = 0;             // stepfuse's own passes and emission
  double parse_ms = 0;              // text into LLVM or NVRTC
  double optimize_ms = 0;           // LLVM's passes
  double codegen_ms = 0;            // machine code
  double load_ms = 0;
  // Time of prepare() as a whole: the above, plus finding compilers, caches and memory on the
  // device.
  double prepare_ms = 0;
  double total_ms() const { return passes_ms + parse_ms + optimize_ms + codegen_ms + load_ms; }
};

struct StepOptions {
  Form form = Form::fused;        // the bits are the same in every form
  LossScaler* scaler = nullptr;   // needed if the program has shared states
  Allocator allocator = {};       // default: the system's or the driver's
  std::string gradient = "grad";  // the buffer that each run() receives
  int stats_ring = 64;            // finished steps whose reports are kept, at most 65,536
  bool check_args =
      true;              // Args::set refuses impossible values of recipe arguments (a negative lr)
  bool observe = false;  // allow observe() and reduce(): prepare() compiles their kernels, too
};

class Step {
 public:
  // Plans tables and workspace; compiles nothing. Throws Error{bind} if the layout does not fit.
  Step(Program program, Layout layout, const Device& device, const StepOptions& options = {});
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  // Compiles and loads the kernel, or finds it in the cache. Throws Error{compile|device}.
  void prepare();
  const CompileReport& compile_report() const;

  // Sets the arrays of a buffer: one pointer per tensor, in the layout's order. A pointer is null if the size is
  // 0 or the tensor has no such array (Buffer::is_of). Checks count, null pointers and alignment to the element
  // size; init_state() and run() check overlap with other arrays. Element types and lengths cannot be
  // checked. Read-only buffers may alias each other. If two tensors share all arrays, they are updated once.
  void bind(std::string_view buffer, Pointers pointers);
  // Initialises buffers as the program says (`= 0`, `= @weight`), and the states that the step writes. Other
  // states, such as a seed, keep what write_state() set. The first call compiles a small step; the caches
  // have it afterwards.
  void init_state(Stream stream = nullptr);
  // The same for tensors from `first` on: those that append() added. Bind them first.
  void init_tensors(size_t first, Stream stream = nullptr);
  // Keeps what the arrays contain, instead of initialising them. If the program initialises buffers, run() is
  // an error until one of these three functions, or load_checkpoint(), has been called for every
  // tensor.
  void adopt_state();

  ArgId arg(std::string_view name) const;  // throws Error{usage} and lists the names
  Args make_args() const;                  // defaults of the program, then of the scaler

  // Runs one step. `gradients` has one pointer per tensor, and is empty if the program has no gradient buffer.
  // A tensor with nullptr has no gradient this time; its parameters, moments and counts do not change.
  // Addresses may change at every call. Except for the first run after a bind(), it allocates nothing,
  // takes no lock and does not wait.
  void run(Pointers gradients, const Args& args, Stream stream = nullptr);

  // For graphs: a captured run(gradients, args) would keep its arguments for ever, so it is an error. Call
  // set_args() before the capture and between replays. It copies arguments to the step's own block in device
  // memory, in stream order, and the run() without arguments uses that block.
  void set_args(const Args& args, Stream stream = nullptr);
  void run(Pointers gradients, Stream stream);
  // The address of one argument in that block. The caller's kernel or copy may overwrite it in stream order
  // between set_args() and run(), for instance external_norm.
  void* device_arg(ArgId arg, int member = 0) const;

  // Takes the arguments from the caller's block, whose layout DeviceArgs describes.
  void run(Pointers gradients, DeviceArgs args, Stream stream = nullptr);
  size_t args_bytes() const;
  size_t arg_offset(ArgId arg, int member = 0) const;  // bytes from the block's start
  void write_args(const Args& args, std::span<uint64_t> words) const;  // fills a block's words

  // Split phase: runs the first phase for tensors [first, first + gradients.size()) while others are still
  // being computed. Repeating it for a tensor overwrites its result. The next run() does the rest, with
  // bit-identical results. Needs StepOptions::observe.
  void observe(size_t first, Pointers gradients, const Args& args, Stream stream = nullptr);
  void observe(size_t first, Pointers gradients, Stream stream);
  void observe(size_t first, Pointers gradients, DeviceArgs args, Stream stream = nullptr);

  // Completes the first phase and its reductions, then stops. The results that partials() lists are then in
  // device memory. Work on the same stream may replace them, such as an all-reduce over ranks, before run()
  // continues with the same gradients. Needs StepOptions::observe.
  void reduce(Pointers gradients, const Args& args, Stream stream = nullptr);
  void reduce(Pointers gradients, Stream stream);
  void reduce(Pointers gradients, DeviceArgs args, Stream stream = nullptr);
  Partials partials() const;

  // Returns the reports of the newest finished step, if any, without waiting. stats() waits.
  std::optional<StepStats> latest() const;
  std::optional<StepStats> stats(Stream stream = nullptr) const;
  // The finished steps still in the ring, oldest first.
  std::vector<StepStats> history() const;

  // Adds a tensor, whose states start at their initial values. Everything else is kept, except history() if the
  // step reports per tensor, or per group and the group is new. Call prepare() (a cache hit unless the dtypes
  // are new), bind() again, and init_tensors() for its arrays. The next call of any other function takes over
  // all appended tensors and allocates their memory. If that fails, none is added.
  void append(TensorSpec tensor);

  // Moves a tensor to another group of the layout for all later runs. Nothing is compiled, bound or initialised
  // again. Waits for the device. After reduce(), call reduce() again before a run. Throws Error{bind} if the
  // tensor or group does not exist.
  void set_group(size_t tensor, int group);

  // A state by name: one value, or one per group or tensor. Both functions wait for the device.
  std::vector<Bits> read_state(std::string_view name, Stream stream = nullptr) const;
  void write_state(std::string_view name, std::span<const Bits> values, Stream stream = nullptr);
  // The state's address on the device: consecutive values of its type, valid until append().
  void* device_state(std::string_view name) const;

  const Program& program() const;
  const Layout& layout() const;
  const Device& device() const;
  // Bytes of device memory that the step owns, from the allocator; known before anything runs.
  size_t workspace_bytes() const;
  // The same for a step that does not exist yet.
  static size_t workspace_bytes(const Program& program, const Layout& layout,
                                const StepOptions& options = {},
                                Device::Kind kind = Device::Kind::cpu);

  // For the runtime's own parts (checkpoints, recording).
  class Impl;
  Impl& impl() const;  // throws Error{usage} for a step that was moved from

 private:
  Impl& unsettled() const;  // the same, before what was appended is taken over
  std::unique_ptr<Impl> impl_;
};

// Numbers of variants that this process compiled and found in memory so far. Tests count them. Thread-safe.
struct CacheStats {
  uint64_t compiled = 0;
  uint64_t hits = 0;
};
CacheStats cache_stats();

// From now on this process looks for kernels in this folder, made by `stepfuse aot`, before it compiles any.
// $STEPFUSE_KERNELS does the same. A process that finds all of its kernels needs neither LLVM nor NVRTC.
// Throws Error{usage} if the folder does not exist.
void use_kernels(const std::string& folder);

}  // namespace stepfuse
#pragma GCC visibility pop
