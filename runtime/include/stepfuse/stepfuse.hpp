// The public API of stepfuse: everything between backward() and the next forward() as one kernel.
// Knows the ir; what touches a machine is behind it.
//
//   namespace sf = stepfuse;
//   sf::Layout layout;                                    // sizes, dtypes, groups; no pointers
//   for (auto& p : params) layout.add({.name = p.name, .size = p.size, .group = p.decay ? 0 : 1});
//
//   sf::LossScaler scaler;                                // may serve several steps
//   sf::Step step(sf::make_recipe("adamw", {.grad = sf::DType::f16, .master = true,
//                                           .loss_scale = sf::LossScale::dynamic,
//                                           .clip = sf::Clip::l2}),   // or sf::parse(text)
//                 layout, sf::Device::cpu(), {.scaler = &scaler});
//   step.prepare();                                       // compiles; run() never does
//   step.bind("weight", weights);                         // one pointer per tensor, long-lived
//   step.init_state();                                    // zeroes moments; never implicit
//   sf::Args args = step.make_args();
//   sf::ArgId lr = step.arg("lr");
//   for (...) {
//     args.set(lr, schedule(i));
//     step.run(gradients, args);                          // nullptr: no gradient this step
//   }
//
// Errors: every mistake of the caller throws stepfuse::Error with a kind and what to do; buffers,
// states and tables are then as they were. Sizes are in elements, memory in bytes. A Step is used by
// one thread at a time; different Steps are independent, also where they share a LossScaler (whose
// owner orders them).
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

// A CUstream (cudaStream_t); null is the legacy stream. The CPU ignores it and is done on return.
using Stream = void*;

// One pointer per tensor, in whatever the caller keeps them: vector<float*>, span<float* const>, an array
// of pointers, or {{a, b}}. A view, like a span.
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
  // A shard: position of its first element in the full tensor, a multiple of 16,384, so that all
  // shards together give one device's bits. 0 for whole tensors.
  uint64_t offset = 0;
  // Of the full tensor, for steps that ask for element counts; 0: it ends where this one does, which
  // such a step refuses of a shard that does not begin it.
  uint64_t full_size = 0;
  // Elements of a row, for steps that ask for them: the product of all sizes of its shape but the first.
  // 0: the tensor is one row. A whole number of rows makes up the full tensor.
  uint64_t columns = 0;
  // Tells its random numbers from those of other tensors, in steps that draw some; by default its number
  // in the layout. Ranks that hold different tensors, or parts of one, give every tensor the same id.
  std::optional<uint32_t> id = {};
  // For steps with such states (recipes with tensor_flags): whether the tensor counts in norm and
  // finite check (a duplicate of one on another rank does not), and whether it is updated.
  bool counted = true;
  bool updated = true;
  // Storage type per buffer name; needed only for buffers that the step declares with several.
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
  // At least so many groups, for tensors that set_group() may move there.
  Layout& reserve_groups(int count);
  // Throws Error{bind} for a tensor or group that there is not.
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
  // or one of "x86-64", "x86-64-v3", "x86-64-v4"; prepare() refuses what this processor has not.
  static Device cpu(int threads = 0, std::string level = "host");
  // The definition of the language, for tests and bisecting; slow.
  static Device interpreter() { return Device(Kind::interpreter); }
  // The calling thread's current context if it is of this device, else the device's primary one.
  // Throws Error{device} when a step is made on it and there is no driver. `options`: choices of the
  // emitter, as in "unroll=2,cache=streaming" (compiler/cuda/options.hpp), that give the same bits at
  // another speed; what is not named is chosen. Throws Error{usage} for names that there are not.
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

// Where a step's own memory comes from. Called at construction, after append(), by init_state() and
// destruction, never by run(); with the context of the step's device current.
struct Allocator {
  // At least 256-byte aligned memory of the step's device, usable on `stream`; null = out of memory.
  std::function<void*(size_t bytes, Stream stream)> allocate = {};
  std::function<void(void* memory, size_t bytes, Stream stream)> release = {};
};

// --- loss scaling

// The device-resident states that several steps share (`state @x … shared`): the loss scale and its
// tracker. All steps of one scaler live on one device; it must outlive them.
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
  // The scale on the device, to multiply the loss with; valid once a step is bound to the scaler.
  const float* device_scale() const;
  // Waits for the device. Before any step is bound: the initial value.
  double read(std::string_view state = "scale") const;
  // GradScaler.update(new_scale), after run(): this scale instead of the one that the run left, and
  // the trackers as they were before it, so that it counts neither as good nor as bad.
  void update(double new_scale);
  // Sets a state to a value, whatever it was: write("scale", s) leaves the trackers to the last run.
  // A scale is positive and finite.
  void write(std::string_view state, double value);

  class Shared;
  Shared& shared() const { return *shared_; }

 private:
  Options options_;
  std::unique_ptr<Shared> shared_;
};

// --- arguments

// Index of an argument of one step; look it up once.
struct ArgId {
  int32_t index = -1;
};

// The hyperparameters of one run: a plain value, cheap to change, tied to the step it came from.
class Args {
 public:
  // Sets the argument for every group (or, of one for tensors, every tensor), or for the one of that
  // number. Integers and bools are converted exactly; throws Error{usage} for a fraction in an integer
  // argument, a group or tensor that does not exist, or a value that a recipe's argument cannot have
  // (lr NaN, accumulation 0; see StepOptions::check_args).
  void set(ArgId arg, double value);
  void set(ArgId arg, int member, double value);
  void set(std::string_view name, double value);
  void set(std::string_view name, int member, double value);
  double get(ArgId arg, int member = 0) const;

 private:
  friend class Step;
  struct Shape;  // which args there are, shared with the step
  explicit Args(std::shared_ptr<const Shape> shape);
  const Shape& shape() const;
  ArgId checked(ArgId arg) const;
  uint64_t& slot(ArgId arg, int member);
  std::shared_ptr<const Shape> shape_;
  std::vector<uint64_t> words_;  // as in DeviceArgs
};

// Arguments that stand in device memory, perhaps computed there: args_bytes() bytes at an address
// aligned to 8, on the CPU in ordinary memory. They are words of 8 bytes: the step-domain arguments
// in declared order, then, for each group from 0, its group-domain arguments in declared order, and for
// each tensor likewise. A value stands in the low bytes of its word as its own type (f64, f32, i64,
// i32; bool: 0 or 1), the other bytes are 0. They are read when the step executes, and must stay
// until then.
struct DeviceArgs {
  const void* block = nullptr;
};

// --- statistics

// The reports of one finished step.
struct StepStats {
  uint64_t index = 0;  // 0 is the first run; load_checkpoint() numbers on from the saved one
  std::vector<std::pair<std::string, double>> values;
  // Reports of groups and tensors: a value for each (grad_norm with clip_per_group).
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  double at(std::string_view report) const;                 // throws Error{usage} if there is none
  double at(std::string_view report, size_t member) const;  // of a group or tensor
  std::optional<double> find(std::string_view report) const;
  const std::vector<double>* find_list(std::string_view report) const;  // null if there is none
};

// --- between the phases

// A reduction over elements whose result the rest of the step uses.
struct Partial {
  std::string name;  // of its value in the program: "sum"
  Op op = Op::reduce_add;
  DType dtype = DType::f32;
  size_t count = 1;              // 1, groups or tensors
  size_t offset = 0;             // bytes from the block's start: `count` values of dtype
  const void* pieces = nullptr;  // what it is folded from: one value of dtype for each piece of
  size_t piece_count = 0;  // 16,384 elements, in bound order; valid from observe() of all tensors
                           // until reduce() or run()
};

// What reduce() leaves, as one block in device memory; f32 first. A recipe made with all_reduce has
// f32 only, all of them sums (all of them maxima with Clip::inf), so that one all-reduce of
// bytes / 4 values serves them all.
struct Partials {
  void* block = nullptr;
  size_t bytes = 0;
  std::vector<Partial> all;
  const Partial& at(std::string_view name) const;  // throws Error{usage} if there is none
};

// --- step

struct CompileReport {
  std::string key;  // readable preimage of the variant's key
  bool from_memory_cache = false;
  bool from_disk_cache = false;
  bool from_kernel_folder = false;  // see use_kernels()
  double passes_ms = 0;             // stepfuse's own passes and emission
  double parse_ms = 0;              // text into LLVM or NVRTC
  double optimize_ms = 0;           // LLVM's passes
  double codegen_ms = 0;            // machine code
  double load_ms = 0;
  // Of prepare() as a whole: the above, and finding compilers, caches and the step's place on the
  // device.
  double prepare_ms = 0;
  double total_ms() const { return passes_ms + parse_ms + optimize_ms + codegen_ms + load_ms; }
};

struct StepOptions {
  Form form = Form::fused;        // the bits are the same in every form
  LossScaler* scaler = nullptr;   // needed if the program has shared states
  Allocator allocator = {};       // default: the system's
  std::string gradient = "grad";  // the buffer that is given at each run
  int stats_ring = 64;            // finished steps whose reports are kept, at most 65,536
  bool check_args = true;  // Args::set refuses what a recipe's argument cannot be (a negative lr)
  bool observe = false;    // observe() will be called: prepare() compiles what it needs, too
};

class Step {
 public:
  // Plans tables and workspace; compiles nothing. Throws Error{bind} where the layout does not fit.
  Step(Program program, Layout layout, const Device& device, const StepOptions& options = {});
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  // Compiles and loads the kernel, or finds it in the cache. Throws Error{compile|device}.
  void prepare();
  const CompileReport& compile_report() const;

  // The arrays of a buffer, one pointer per tensor of the layout in its order (null where the size
  // is 0, or the tensor has no such array: Buffer::is_of). Checked here: count, null, alignment to
  // the element size, overlap with other arrays. Read-only buffers may alias each other; a tensor
  // bound twice with all arrays identical is updated once.
  void bind(std::string_view buffer, Pointers pointers);
  // Buffers as the program says (`= 0`, `= @weight`), states that the step writes to their initial
  // values; others, as a seed, stay what write_state() gave them. Compiles a small step the first
  // time; the caches have it afterwards.
  void init_state(Stream stream = nullptr);
  // The same for the tensors from `first` on only: those that append() added, once they are bound.
  void init_tensors(size_t first, Stream stream = nullptr);
  // Instead of both: the arrays hold what the step shall go on from. run() is an error until one of
  // these, or load_checkpoint(), has been called for every tensor, where the program says how its
  // buffers begin.
  void adopt_state();

  ArgId arg(std::string_view name) const;  // throws Error{usage} and lists the names
  Args make_args() const;                  // defaults of the program, then of the scaler

  // One step. `gradients`: one pointer per tensor, nullptr where it has none this step (its
  // parameters, moments and counts then stay). Addresses may change at every call. Empty if the
  // program has no gradient buffer. Allocates nothing, takes no lock, waits for nothing, but for the
  // first run after a bind().
  void run(Pointers gradients, const Args& args, Stream stream = nullptr);

  // For graphs: a captured run() would keep the arguments of the capture for ever, so by value is an
  // error there. set_args() brings them to the step's own block in device memory, in stream order,
  // before the capture and between replays, and the run() without arguments uses that block.
  void set_args(const Args& args, Stream stream = nullptr);
  void run(Pointers gradients, Stream stream);
  // Where one argument stands in that block: what a kernel or copy of the caller may overwrite, in
  // stream order between set_args() and run(); say external_norm, computed on the device.
  void* device_arg(ArgId arg, int member = 0) const;

  // The arguments of a block of the caller's, laid out as DeviceArgs says.
  void run(Pointers gradients, DeviceArgs args, Stream stream = nullptr);
  size_t args_bytes() const;
  size_t arg_offset(ArgId arg, int member = 0) const;  // bytes from the block's start
  void write_args(const Args& args, std::span<uint64_t> words) const;  // a block's contents

  // Split phase: runs the first phase for tensors [first, first + gradients.size()) while others are
  // still being computed; again = overwrite. The next run() does the rest, to the same bits. Needs
  // StepOptions::observe.
  void observe(size_t first, Pointers gradients, const Args& args, Stream stream = nullptr);
  void observe(size_t first, Pointers gradients, Stream stream);
  void observe(size_t first, Pointers gradients, DeviceArgs args, Stream stream = nullptr);

  // Between the phases: the rest of the first phase and its reductions, then stop. What partials()
  // names then stands in device memory, where work on the same stream may replace it (an all-reduce
  // over ranks, a norm of somebody else's) before run() goes on from it, with the same gradients.
  // Needs StepOptions::observe.
  void reduce(Pointers gradients, const Args& args, Stream stream = nullptr);
  void reduce(Pointers gradients, Stream stream);
  void reduce(Pointers gradients, DeviceArgs args, Stream stream = nullptr);
  Partials partials() const;

  // Reports of the newest finished step, if there is one; does not wait. stats() waits.
  std::optional<StepStats> latest() const;
  std::optional<StepStats> stats(Stream stream = nullptr) const;
  // The finished steps still in the ring, oldest first.
  std::vector<StepStats> history() const;

  // Adds a tensor: its states start at their initial values, everything else is kept, but for the
  // history() of a step that reports of tensors, or of groups where there is a new one. Call prepare()
  // (a cache hit unless its dtypes are new), bind() again, and init_tensors() for its arrays. The next call of
  // anything else takes over all tensors that were appended, and their memory; where that fails, none is added.
  void append(TensorSpec tensor);

  // Moves a tensor to another of the layout's groups, for the runs from now on: nothing is compiled, bound
  // or begun anew. Waits for the device. reduce() is called again before a run. Throws Error{bind} where there is no such tensor or group.
  void set_group(size_t tensor, int group);

  // Persistent state by name: 1, group count or tensor count values; wait for the device.
  std::vector<Bits> read_state(std::string_view name, Stream stream = nullptr) const;
  void write_state(std::string_view name, std::span<const Bits> values, Stream stream = nullptr);
  // The same memory on the device: values of its type one behind the other, valid until append().
  void* device_state(std::string_view name) const;

  const Program& program() const;
  const Layout& layout() const;
  const Device& device() const;
  // Bytes of the step's own memory on its device, from the allocator; known before anything runs.
  size_t workspace_bytes() const;
  // The same for a step that is not made yet.
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

// Variants compiled by this process so far, and found in memory: what tests count.
struct CacheStats {
  uint64_t compiled = 0;
  uint64_t hits = 0;
};
CacheStats cache_stats();

// From now on this process looks for kernels in this folder, which `stepfuse aot` made, before it
// compiles any; also $STEPFUSE_KERNELS. A process that finds all of its kernels needs neither LLVM nor
// NVRTC. Throws Error{usage} if there is no such folder.
void use_kernels(const std::string& folder);

}  // namespace stepfuse
#pragma GCC visibility pop
