// The public API of stepfuse: everything between backward() and the next forward() as one kernel.
// Knows the ir; what touches a machine is behind it.
//
//   namespace sf = stepfuse;
//   sf::Layout layout;                                    // sizes, groups, dtypes; no pointers
//   for (auto& p : params) layout.add({.name = p.name, .elements = p.size, .group = p.decay ? 0 : 1});
//
//   sf::LossScaler scaler;                                // several steps may share it
//   sf::Step step(sf::make_recipe("adamw", {.grad = sf::DType::f16, .master = true,
//                                           .loss_scale = sf::LossScale::dynamic,
//                                           .clip = sf::Clip::l2}),   // or sf::parse(text)
//                 layout, sf::Device::cpu(), {.scaler = &scaler});
//   step.prepare();                                       // compiles; run() never compiles
//   step.bind("weight", weights);                         // one array per tensor, a span or vector of each
//   step.init_state();                                    // sets moments to zero; never implicit
//   std::vector<void*> gradients = step.gradients(grads); // checked once
//   sf::Args args = step.make_args();
//   sf::ArgId lr = step.arg("lr");
//   for (...) {
//     args.set(lr, schedule(i));
//     step.run(gradients, args);                          // nullptr: no gradient this step
//   }
//
// Errors. A mistake of the caller throws stepfuse::Error, whose kind() and text say what is wrong and what to
// do. Buffers, states and tables are then unchanged. "@throws" names the kinds. Every function may also throw
// std::bad_alloc, and std::logic_error for a bug in stepfuse. Sizes are in elements, memory is in bytes.
//
// Threads. "@thread one": use the object from one thread at a time; different objects are independent. "@thread
// any": any threads may call it at the same time, on the same object, too. A class's mark holds for its functions.
// Steps that share a LossScaler are independent, too, but the caller orders their runs.
//
// <stepfuse/ir.hpp> has the insides of programs, for tools.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
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
#include <stepfuse/version.h>

#pragma GCC visibility push(default)
namespace stepfuse {

/// Returns the library's version, as in "0.1.0". STEPFUSE_VERSION_STRING is the headers'.
/// @thread any
std::string_view version();

/// A CUstream (cudaStream_t), as in Stream{stream}; null is the legacy stream. The CPU ignores it and has finished
/// on return.
struct Stream {
  void* handle = nullptr;
  friend bool operator==(Stream, Stream) = default;
};

/// A parameter group of a layout.
struct Group {
  int index = 0;
};

/// A tensor of a layout.
struct Tensor {
  size_t index = 0;
};

/// A group or a tensor, where a function takes either. An argument or report that is one value has the member {}.
class Member {
 public:
  enum class Kind : uint8_t { any, group, tensor };
  constexpr Member() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a group is a member
  constexpr Member(Group group) : kind_(Kind::group), index_(group.index) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a tensor is a member
  constexpr Member(Tensor tensor)
      : kind_(Kind::tensor), index_(static_cast<int64_t>(tensor.index)) {}
  constexpr Kind kind() const { return kind_; }
  constexpr int64_t index() const { return index_; }

 private:
  friend struct Internals;
  Kind kind_ = Kind::any;
  int64_t index_ = 0;
};

// --- arrays

/// The storage types that an array of T can have. Specialise it for a type of your own, such as a half:
/// `template <> inline constexpr stepfuse::DTypeSet stepfuse::storage_of<half> = stepfuse::DType::f16;`
template <class T>
inline constexpr DTypeSet storage_of = {};
template <>
inline constexpr DTypeSet storage_of<float> = DType::f32;
template <>
inline constexpr DTypeSet storage_of<double> = DType::f64;
template <>
inline constexpr DTypeSet storage_of<int64_t> = DType::i64;
template <>
inline constexpr DTypeSet storage_of<int32_t> = DType::i32;
template <>
inline constexpr DTypeSet storage_of<int16_t> = DType::i16;
template <>
inline constexpr DTypeSet storage_of<int8_t> = DType::i8;
/// The bits of a 16-bit float.
template <>
inline constexpr DTypeSet storage_of<uint16_t> = DTypeSet(DType::f16) | DType::bf16;
/// Codes, or the bits of an 8-bit float.
template <>
inline constexpr DTypeSet storage_of<uint8_t> =
    DTypeSet(DType::u8) | DType::f8e4m3 | DType::f8e5m2 | DType::f8e8m0 | DType::f4e2m1;

/// One tensor's array of a buffer: a view with element type and count. Device memory is viewed like host memory.
class Array {
 public:
  /// No array: for tensors that do not have one.
  Array() = default;
  template <class T>
    requires(!std::is_const_v<T> && !storage_of<T>.empty())
  Array(T* data, uint64_t elements) : data_(data), elements_(elements), dtypes_(storage_of<T>) {}
  /// A span, vector, std::array or array of elements.
  template <std::ranges::contiguous_range R>
    requires(std::ranges::sized_range<R> &&
             (std::is_lvalue_reference_v<R> || std::ranges::borrowed_range<R>) &&
             !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>> &&
             !storage_of<std::ranges::range_value_t<R>>.empty())
  Array(R&& values)  // NOLINT: a span is an array
      : Array(std::ranges::data(values), std::ranges::size(values)) {}

  void* data() const { return data_; }
  uint64_t elements() const { return elements_; }
  DTypeSet dtypes() const { return dtypes_; }

 private:
  void* data_ = nullptr;
  uint64_t elements_ = 0;
  DTypeSet dtypes_;
};

/// One Array per tensor: a list {a, b}, or a range such as vector<vector<float>> or vector<span<float>>.
class Arrays {
 public:
  Arrays(std::initializer_list<Array> arrays) : arrays_(arrays) {}
  template <std::ranges::input_range R>
    requires(!std::same_as<std::remove_cvref_t<R>, Arrays> &&
             (std::is_lvalue_reference_v<R> ||
              std::ranges::borrowed_range<std::ranges::range_value_t<R>> ||
              std::same_as<std::ranges::range_value_t<R>, Array>) &&
             std::convertible_to<std::ranges::range_reference_t<R>, Array>)
  Arrays(R&& arrays) {  // NOLINT: a range of arrays is one
    for (auto&& array : arrays) arrays_.push_back(array);
  }
  std::span<const Array> all() const { return arrays_; }

 private:
  std::vector<Array> arrays_;
};

/// One pointer per tensor, as a vector<float*>, span<float* const>, array of pointers, or {a, b}. It is a view, like
/// a span: a list lives until the end of the call.
class Pointers : public std::span<void* const> {
 public:
  using std::span<void* const>::span;
  Pointers() = default;
  Pointers(std::span<void* const> pointers) : std::span<void* const>(pointers) {}  // NOLINT
  Pointers(std::initializer_list<void*> pointers)
      : std::span<void* const>(std::data(pointers), pointers.size()) {}
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

/// One tensor, or one rank's shard of it.
struct TensorSpec {
  std::string name = {};  ///< for messages; may be empty
  uint64_t elements = 0;  ///< 0 is allowed
  int group = 0;          ///< parameter group, from 0
  /// Position of a shard's first element in the full tensor, in elements; 0 for whole tensors. It must be a
  /// multiple of 4 and of each block that the step has. With multiples of 16,384, a PieceExchange gives norms
  /// with one device's bits.
  uint64_t offset = 0;
  /// Elements of the full tensor, for steps that use element counts. 0 means that the full tensor ends where
  /// this one ends; such a step then refuses a shard with an offset.
  uint64_t full_elements = 0;
  /// Elements of one row, for steps with rows: the product of all dimensions but the first. 0 means that the
  /// tensor is one row. The full tensor must be a whole number of rows.
  uint64_t columns = 0;
  /// Identifies the tensor's random numbers; the default is its number in the layout. Ranks that hold
  /// different tensors, or shards of one, must give each tensor the same id on every rank.
  std::optional<uint32_t> id = {};
  /// For recipes with tensor_flags: whether the tensor counts in norm and finite check, and whether it is
  /// updated. A duplicate of another rank's tensor is not counted.
  bool counted = true;
  bool updated = true;
  /// For tensors without elements: true if such a tensor is absent while its gradient is null, and present with
  /// any other address. By default it is present in each step. An absent tensor's steps are not counted.
  bool present_by_gradient = false;
  /// Storage type per buffer name; needed only for buffers that the step declares with several types.
  std::map<std::string, DType> dtypes = {};

  /// Elements of the full tensor.
  uint64_t element_count() const { return full_elements != 0 ? full_elements : offset + elements; }
  uint64_t column_count() const { return columns != 0 ? columns : element_count(); }
  uint64_t row_count() const {
    return elements == 0 ? 0 : (elements + column_count() - 1) / column_count();
  }
  uint64_t own_columns() const { return elements == 0 ? 0 : column_count(); }
};

/// The tensors of a model, in an order that arrays and gradients follow.
/// @thread one; any for const functions
class Layout {
 public:
  /// Adds a tensor behind the others.
  /// @throws Error{bind} if its numbers contradict each other or are too large
  Layout& add(TensorSpec tensor);
  /// Throws what add() would.
  void check(const TensorSpec& tensor) const;
  const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// The number of tensors.
  size_t size() const { return tensors_.size(); }
  /// The highest group + 1, at least 1.
  int group_count() const { return group_count_; }
  /// Makes room for at least `count` groups, to which set_group() may move tensors.
  /// @throws Error{bind} if there cannot be as many
  Layout& reserve_groups(int count);
  /// @throws Error{bind} if the tensor or group does not exist
  Layout& set_group(Tensor tensor, Group group);
  /// Elements of all tensors.
  uint64_t element_count() const { return elements_; }

 private:
  std::vector<TensorSpec> tensors_;
  int group_count_ = 1;
  uint64_t elements_ = 0;
};

// --- device

/// The device that a step runs on.
/// @thread any
class Device {
 public:
  enum class Kind : uint8_t { cpu, interpreter, cuda };
  /// Code by LLVM, run by `threads` threads (0: all that the process may use). `level` is "host", or "x86-64",
  /// "x86-64-v3", "x86-64-v4" or, on AArch64, "armv8-a"; prepare() refuses a level that this processor lacks.
  /// @throws Error{usage} for another level
  static Device cpu(int threads = 0, std::string level = "host");
  /// The interpreter, which defines the language. It is slow; use it for tests and bisecting.
  static Device interpreter() { return Device(Kind::interpreter); }
  /// Uses the calling thread's current context if it belongs to this device, else the device's primary one.
  /// Making a step on it throws Error{device} if there is no driver. `options` tune the kernels, as in
  /// "unroll=2,cache=streaming" (docs/cuda.md), and change no bit; options that are not named are chosen.
  /// @throws Error{usage} for unknown names
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

/// Allocates a step's own memory. Called at construction, after append(), by init_state() and
/// destruction, never by run(); with the context of the step's device current.
struct Allocator {
  /// Returns memory of the step's device, aligned to at least 256 bytes and usable on `stream`, or null if
  /// there is none.
  std::function<void*(size_t bytes, Stream stream)> allocate = {};
  std::function<void(void* memory, size_t bytes, Stream stream)> release = {};
};

// --- loss scaling

/// The states on the device that several steps share (`state @x … shared`): the loss scale and its tracker.
/// All steps of one scaler are on one device. They keep its states alive.
/// @thread any
class LossScaler {
 public:
  struct Options {
    double init_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    int growth_interval = 2000;
  };
  LossScaler() : LossScaler(Options{}) {}
  /// @throws Error{usage} for an option that is out of range
  explicit LossScaler(const Options& options);
  ~LossScaler();
  LossScaler(const LossScaler&) = delete;
  LossScaler& operator=(const LossScaler&) = delete;

  const Options& options() const { return options_; }
  /// The address of the scale on the device, for multiplying the loss.
  /// @throws Error{usage} until a step uses the scaler
  const float* device_scale() const;
  /// Waits for the device. Returns the initial value if no step uses the scaler yet.
  /// @throws Error{usage} for an unknown state; Error{device}
  double read(std::string_view state = "scale") const;
  /// GradScaler.update(new_scale): call it after run(). It replaces the scale that the run left, and resets the
  /// trackers to their values before the run, which then counts neither as good nor as bad.
  /// @throws Error{usage} for a scale that is not positive and finite; Error{device}
  void update(double new_scale);
  /// Sets one state to a value; write("scale", s) does not change the trackers.
  /// @throws Error{usage} for an unknown state, or a scale that is not positive and finite; Error{device}
  void write(std::string_view state, double value);

  class Shared;

 private:
  friend struct Internals;
  Options options_;
  std::shared_ptr<Shared> shared_;
};

// --- arguments

/// Index of an argument of one step. Look it up once with Step::arg().
struct ArgId {
  int32_t index = -1;
};

/// The hyperparameters of one run: a value that is cheap to change and belongs to the step that made it.
/// @thread one; any for const functions and for runs with it
class Args {
 public:
  /// Sets the argument for all groups or tensors, or for one: set(lr, Group{1}, 0.1). Integers and bools are
  /// converted exactly.
  /// @throws Error{usage} for a fraction in an integer argument, a group or tensor that does not exist or that the
  ///         argument does not have, or a value that a recipe's argument cannot have, such as lr NaN or
  ///         accumulation 0 (see StepOptions::check_args)
  void set(ArgId arg, double value);
  void set(ArgId arg, Member member, double value);
  void set(std::string_view name, double value);
  void set(std::string_view name, Member member, double value);
  /// @throws Error{usage} as set() does
  double get(ArgId arg, Member member = {}) const;

 private:
  friend class Step;
  struct Shape;  // names and types of the arguments, shared with the step
  explicit Args(std::shared_ptr<const Shape> shape);
  const Shape& shape() const;
  ArgId checked(ArgId arg) const;
  uint64_t& slot(ArgId arg, Member member);
  std::shared_ptr<const Shape> shape_;
  std::vector<uint64_t> words_;  // as in DeviceArgs
};

/// Arguments in device memory (on the CPU in ordinary memory), which may be computed there: args_bytes() bytes at
/// an address aligned to 8. They are words of 8 bytes in this order: the per-step arguments as declared,
/// the per-group arguments of each group from 0 on, then those of each tensor. A value is in the low bytes
/// of its word in its own type (f64, f32, i64, i32; a bool is 0 or 1), and the other bytes are 0. The step
/// reads them when it executes, so they must stay until then.
struct DeviceArgs {
  const void* block = nullptr;
};

// --- statistics

/// The reports of one finished step.
/// @thread any for const functions
struct StepStats {
  uint64_t index = 0;  ///< 0 is the first run; load_checkpoint() continues from the saved number
  std::vector<std::pair<std::string, double>> values;
  /// Reports per group or tensor, such as grad_norm with clip_per_group.
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  /// Return one report, or that of one group or tensor.
  /// @throws Error{usage} if there is none
  double at(std::string_view report) const;
  double at(std::string_view report, Member member) const;
  /// Return one report, empty or null if there is none.
  std::optional<double> find(std::string_view report) const;
  const std::vector<double>* find_list(std::string_view report) const;
};

// --- between the phases

/// How a reduction combines values: a sum, the largest or smallest, or whether any is true.
enum class Reduction : uint8_t { add, max, min, any };
/// Returns the name in a step's text, as in "reduce_add".
/// @thread any
std::string_view name(Reduction reduction);

/// A reduction over elements, whose result the rest of the step uses.
struct Partial {
  std::string name;  ///< of its value in the program: "sum"
  Reduction op = Reduction::add;
  DType dtype = DType::f32;
  size_t count = 1;   ///< 1, groups or tensors
  size_t offset = 0;  ///< bytes from the block's start: `count` values of dtype
  /// Inputs of the fold: one value of dtype per piece of 16,384 elements, in bound order. They are valid from
  /// observe() of all tensors until reduce() or run().
  const void* pieces = nullptr;
  size_t piece_count = 0;
  /// True for the norm and the check, which the program computes before `stage optimizer`; false for
  /// reductions of the optimizer's own formula. True for all reductions if there is no such stage.
  bool pipeline = true;
};

/// The results of reduce(), as one block in device memory; f32 first. Norm and check of a recipe made with
/// all_reduce are f32 sums (maxima with Clip::inf), so that one all-reduce of bytes / 4 values serves both. A
/// formula that reduces for itself may leave others among them: each is exchanged by its own `op`.
struct Partials {
  void* block = nullptr;
  size_t bytes = 0;
  std::vector<Partial> all;
  /// @throws Error{usage} if there is none of that name
  const Partial& at(std::string_view name) const;
};

// --- step

/// How prepare() got its kernel, and the time of each part.
struct CompileReport {
  std::string key;  ///< readable text from which the cache key is hashed
  bool from_memory_cache = false;
  bool from_disk_cache = false;
  bool from_kernel_folder = false;  ///< see use_kernels()
  double passes_ms = 0;             ///< stepfuse's own passes and emission
  double parse_ms = 0;              ///< text into LLVM or NVRTC
  double optimize_ms = 0;           ///< LLVM's passes
  double codegen_ms = 0;            ///< machine code
  double load_ms = 0;
  /// Time of prepare() as a whole: the above, plus finding compilers, caches and memory on the device.
  double prepare_ms = 0;
  double total_ms() const { return passes_ms + parse_ms + optimize_ms + codegen_ms + load_ms; }
};

/// How a step is made.
struct StepOptions {
  Form form = Form::fused;        ///< the bits are the same in every form
  LossScaler* scaler = nullptr;   ///< needed if the program has shared states; the step keeps them
  Allocator allocator = {};       ///< default: the system's or the driver's
  std::string gradient = "grad";  ///< the buffer that each run() receives; empty: none
  int stats_ring = 64;            ///< finished steps whose reports are kept, at most 65,536
  /// Args::set refuses impossible values of recipe arguments (a negative lr).
  bool check_args = true;
  bool observe = false;  ///< allow observe() and reduce(): prepare() compiles their kernels, too
};

/// The array that a tensor has in a buffer.
struct ArrayShape {
  DType dtype = DType::f32;
  uint64_t elements = 0;  ///< 0: the tensor has none
};

/// A program, laid out for a model on a device. Every function throws Error{usage} if the step was moved from, or if
/// another thread is using it, and Error{device} if the device fails.
/// @thread one
class Step {
 public:
  /// Plans tables and workspace; compiles nothing.
  /// @throws Error{bind} if the layout does not fit; Error{usage} for an option; Error{device} if there is no such
  ///         device or too little memory on it
  Step(Program program, Layout layout, const Device& device, const StepOptions& options = {});
  ~Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;

  /// Compiles and loads the kernel, or finds it in the cache.
  /// @throws Error{compile}; Error{device} if a compiler or the driver is missing or fails
  void prepare();
  const CompileReport& compile_report() const;

  /// The names of the buffers, the gradient's too, in the program's order.
  std::vector<std::string> buffers() const;
  /// The storage type and the elements that bind() or run() expects for one tensor.
  /// @throws Error{bind} if the buffer or tensor does not exist
  ArrayShape array(std::string_view buffer, Tensor tensor) const;

  /// Sets the arrays of a buffer: one Array per tensor, in the layout's order. It checks count, element types,
  /// elements, null pointers and alignment; init_state() and run() check overlap with other arrays. The arrays must
  /// stay until they are bound again or the step ends. Read-only buffers may alias each other. If two tensors share
  /// all arrays, they are updated once.
  /// @throws Error{bind}
  void bind(std::string_view buffer, const Arrays& arrays);
  /// The same for pointers, whose element types and lengths cannot be checked. A pointer is null if the tensor has no
  /// elements or no such array.
  /// @throws Error{bind}
  void bind_raw(std::string_view buffer, Pointers pointers);
  /// Checks gradients as bind() checks arrays, and returns their pointers for run(). An empty Array is a tensor
  /// without a gradient.
  /// @throws Error{bind}
  std::vector<void*> gradients(const Arrays& arrays) const;

  /// Initialises buffers as the program says (`= 0`, `= @weight`), and the states that the step writes. Other
  /// states, such as a seed, keep what write_state() set. The first call compiles a small step; the caches
  /// have it afterwards.
  /// @throws Error{bind} if a buffer is not bound or overlaps another; Error{compile}
  void init_state(Stream stream = {});
  /// The same for tensors from `first` on: those that append() added. Bind them first.
  /// @throws Error{bind} and Error{compile} as init_state(); Error{usage} if earlier tensors are not initialised
  void init_tensors(Tensor first, Stream stream = {});
  /// Keeps what the arrays contain, instead of initialising them. If the program initialises buffers, run() is
  /// an error until one of these three functions, or load_checkpoint(), has been called for every
  /// tensor.
  void adopt_state();

  /// @throws Error{usage} if there is no such argument, with all names
  ArgId arg(std::string_view name) const;
  /// Returns arguments with the defaults of the program, then of the scaler.
  Args make_args() const;

  /// Runs one step. `gradients` has one pointer per tensor, and is empty if the program has no gradient buffer.
  /// A tensor with nullptr has no gradient this time; its parameters, moments and counts do not change.
  /// Addresses may change at every call. Except for the first run after a bind(), it allocates nothing,
  /// takes no lock and does not wait.
  /// @throws Error{bind} for a wrong gradient or a buffer that is not bound; Error{usage} before prepare() or
  ///         init_state(), or if the arguments are another step's
  void run(Pointers gradients, const Args& args, Stream stream = {});

  /// For graphs: a captured run(gradients, args) would keep its arguments for ever, so it is an error. Call
  /// set_args() before the capture and between replays. It copies arguments to the step's own block in device
  /// memory, in stream order, and run_captured() uses that block.
  /// @throws Error{usage} and Error{bind} as run()
  void set_args(const Args& args, Stream stream = {});
  /// Runs one step with the arguments of set_args(), captured or not.
  /// @throws Error{usage} before set_args(); Error{bind} as run()
  void run_captured(Pointers gradients, Stream stream = {});
  /// The address of one argument in that block. The caller's kernel or copy may overwrite it in stream order
  /// between set_args() and run_captured(), for instance external_norm.
  /// @throws Error{usage} if the argument or member does not exist
  void* device_arg(ArgId arg, Member member = {}) const;

  /// Takes the arguments from the caller's block, whose layout DeviceArgs describes.
  /// @throws Error{usage} if the block is null, not aligned or not the device's; Error{bind} as run()
  void run(Pointers gradients, DeviceArgs args, Stream stream = {});
  /// Describe such a block: its bytes, an argument's place in bytes from its start, and the words of arguments.
  /// @throws Error{usage} if the argument or member does not exist, or the number of words is wrong
  size_t args_bytes() const;
  size_t arg_offset(ArgId arg, Member member = {}) const;
  void write_args(const Args& args, std::span<uint64_t> words) const;

  /// Split phase: runs the first phase for tensors [first, first + gradients.size()) while others are still
  /// being computed. Repeating it for a tensor overwrites its result. The next run() does the rest, with
  /// bit-identical results.
  /// @throws Error{usage} without StepOptions::observe; what the run with the same arguments throws
  void observe(Tensor first, Pointers gradients, const Args& args, Stream stream = {});
  void observe_captured(Tensor first, Pointers gradients, Stream stream = {});
  void observe(Tensor first, Pointers gradients, DeviceArgs args, Stream stream = {});

  /// Completes the first phase and its reductions, then stops. The results that partials() lists are then in
  /// device memory. Work on the same stream may replace them, such as an all-reduce over ranks, before run()
  /// continues with the same gradients.
  /// @throws Error{usage} without StepOptions::observe; what the run with the same arguments throws
  void reduce(Pointers gradients, const Args& args, Stream stream = {});
  void reduce_captured(Pointers gradients, Stream stream = {});
  void reduce(Pointers gradients, DeviceArgs args, Stream stream = {});
  Partials partials() const;

  /// Returns the reports of the newest finished step, if any, without waiting. stats() waits.
  std::optional<StepStats> latest() const;
  std::optional<StepStats> stats(Stream stream = {}) const;
  /// The finished steps still in the ring, oldest first.
  std::vector<StepStats> history() const;

  /// Adds a tensor, whose states start at their initial values. Everything else is kept, except history() if the
  /// step reports per tensor, or per group and the group is new. Call prepare() (a cache hit unless the dtypes
  /// are new), bind() again, and init_tensors() for its arrays. The next call of any other function takes over
  /// all appended tensors and allocates their memory. If that fails, none is added.
  /// @throws Error{bind} if the tensor does not fit the program
  void append(TensorSpec tensor);

  /// Moves a tensor to another group of the layout for all later runs. Nothing is compiled, bound or initialised
  /// again. Waits for the device. After reduce(), call reduce() again before a run.
  /// @throws Error{bind} if the tensor or group does not exist
  void set_group(Tensor tensor, Group group);

  /// A state by name: one value, or one per group or tensor. Both functions wait for the device.
  /// @throws Error{usage} for an unknown state or a wrong count
  std::vector<Bits> read_state(std::string_view name, Stream stream = {}) const;
  void write_state(std::string_view name, std::span<const Bits> values, Stream stream = {});
  /// The state's address on the device: consecutive values of its type, valid until append().
  /// @throws Error{usage} for an unknown state
  void* device_state(std::string_view name) const;

  const Program& program() const;
  const Layout& layout() const;
  const Device& device() const;
  /// Bytes of device memory that the step owns, from the allocator; known before anything runs.
  size_t workspace_bytes() const;
  /// The same for a step that does not exist yet.
  /// @throws what the constructor throws
  /// @thread any
  static size_t workspace_bytes(const Program& program, const Layout& layout,
                                const StepOptions& options = {},
                                Device::Kind kind = Device::Kind::cpu);

  class Impl;

 private:
  friend struct Internals;
  Impl& impl() const;       // throws Error{usage} for a step that was moved from
  Impl& unsettled() const;  // the same, before what was appended is taken over
  std::unique_ptr<Impl> impl_;
};

/// Numbers of kernels that this process compiled and found in memory so far.
struct CacheStats {
  uint64_t compiled = 0;
  uint64_t hits = 0;
};
/// @thread any
CacheStats cache_stats();

/// Makes this process look for kernels in a folder that `stepfuse aot` made, before it compiles any.
/// $STEPFUSE_KERNELS does the same. A process that finds all of its kernels needs neither LLVM nor NVRTC.
/// @throws Error{usage} if the folder does not exist
/// @thread any
void use_kernels(const std::string& folder);

}  // namespace stepfuse
#pragma GCC visibility pop
