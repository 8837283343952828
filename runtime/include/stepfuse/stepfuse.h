// stepfuse for C, and for languages that call C: everything between backward() and the next forward() as one
// kernel. Knows only C; docs/embedding.md explains it, and stepfuse.hpp is the same for C++.
//
//   stepfuse_program* program;
//   const char* options[] = {"clip=l2"};
//   if (stepfuse_recipe("adamw", options, 1, &program)) die(stepfuse_error_message());
//   stepfuse_layout* layout;
//   stepfuse_layout_create(&layout);
//   stepfuse_tensor tensor = STEPFUSE_TENSOR;
//   tensor.elements = 1000;
//   stepfuse_layout_add(layout, &tensor);
//   stepfuse_device device = STEPFUSE_DEVICE;                  // the CPU, all threads
//   stepfuse_step* step;
//   stepfuse_step_create(program, layout, &device, NULL, &step);
//   stepfuse_step_prepare(step);                               // compiles; run never compiles
//   void* weights[] = {weight};                                // one pointer per tensor
//   stepfuse_step_bind(step, "weight", weights, 1);            // and so on: "exp_avg", "exp_avg_sq"
//   stepfuse_step_init_state(step, NULL);
//   stepfuse_args* args;
//   stepfuse_step_make_args(step, &args);
//   int32_t lr;
//   stepfuse_step_arg(step, "lr", &lr);
//   for (...) {
//     stepfuse_args_set(args, lr, schedule(i));
//     stepfuse_step_run(step, gradients, 1, args, NULL);
//   }
//
// Errors. A function that can fail returns a status. If it is not STEPFUSE_OK, the function has changed nothing,
// and stepfuse_error_message() says what is wrong and what to do. Every such function returns
// STEPFUSE_ERROR_USAGE for a NULL that is not allowed, STEPFUSE_ERROR_OUT_OF_MEMORY, and
// STEPFUSE_ERROR_INTERNAL for a bug. "@return" lists its other errors. No C++ exception leaves a function.
//
// Threads. "@thread one": use the handle from one thread at a time; different handles are independent. "@thread
// any": any threads may call it at the same time, on the same handle, too, while no thread changes the handle.
//
// Handles. A function that makes a handle stores it through its last parameter. stepfuse_<handle>_destroy frees
// it and accepts NULL. A step keeps what it needs: program, layout and scaler may be freed before the step.
//
// Structs begin with struct_size, which initialisers such as STEPFUSE_TENSOR and functions such as
// stepfuse_tensor_init() set with all other defaults. Later versions append fields. Within a symbol version,
// functions are never removed or changed in meaning. `elements` counts array elements.
#ifndef STEPFUSE_STEPFUSE_H
#define STEPFUSE_STEPFUSE_H

#include <stddef.h>
#include <stdint.h>

#include <stepfuse/version.h>

#if defined(__GNUC__)
#define STEPFUSE_API __attribute__((visibility("default")))
#define STEPFUSE_DEPRECATED(instead) __attribute__((deprecated("use " instead)))
#else
#define STEPFUSE_API
#define STEPFUSE_DEPRECATED(instead)
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- errors

/// 0, or the kind of an error.
typedef int32_t stepfuse_status;
enum {
  STEPFUSE_OK = 0,
  STEPFUSE_ERROR_PARSE = 1,          ///< in a step's text: see stepfuse_error_place
  STEPFUSE_ERROR_VERIFY = 2,         ///< the text's meaning: types, granularities
  STEPFUSE_ERROR_BIND = 3,           ///< layout or pointers do not fit the step
  STEPFUSE_ERROR_COMPILE = 4,        ///< a compiler refused a kernel
  STEPFUSE_ERROR_DEVICE = 5,         ///< no device, driver or compiler, or it failed; files
  STEPFUSE_ERROR_USAGE = 6,          ///< an argument of the call
  STEPFUSE_ERROR_OUT_OF_MEMORY = 7,  ///< of the host
  STEPFUSE_ERROR_INTERNAL = 8        ///< a bug in stepfuse
};

/// Returns what went wrong in this thread's last failed call, and what to do. It is empty if none has failed, and
/// valid until this thread's next failed call.
/// @thread any
STEPFUSE_API const char* stepfuse_error_message(void);

/// Stores where in a step's text that error was, from 1. Both are 0 if it was not about text.
/// @thread any
STEPFUSE_API void stepfuse_error_place(int32_t* line, int32_t* column);

/// Returns the library's version, as in "0.1.0". STEPFUSE_VERSION_STRING is the headers'.
/// @thread any
STEPFUSE_API const char* stepfuse_version(void);

/// Frees a text that a function returned through a char**. Accepts NULL.
/// @thread any
STEPFUSE_API void stepfuse_free(char* text);

// --- types

/// A storage type.
typedef int32_t stepfuse_dtype;
enum {
  STEPFUSE_BOOL = 0,
  STEPFUSE_I32 = 1,
  STEPFUSE_I64 = 2,
  STEPFUSE_F16 = 3,
  STEPFUSE_BF16 = 4,
  STEPFUSE_F32 = 5,
  STEPFUSE_F64 = 6,
  STEPFUSE_F8_E4M3 = 7,
  STEPFUSE_F8_E5M2 = 8,
  STEPFUSE_U8 = 9,
  STEPFUSE_I8 = 10,
  STEPFUSE_I16 = 11,
  STEPFUSE_F8_E8M0 = 12, /**< powers of two, as the scales of MXFP8 */
  STEPFUSE_F4_E2M1 = 13  /**< one number per byte, in its lower half */
};

/// Returns the name, as in "f32", or NULL for a number that is not a dtype.
/// @thread any
STEPFUSE_API const char* stepfuse_dtype_name(stepfuse_dtype dtype);

/// Returns the bytes of one element, or 0 for a number that is not a dtype.
/// @thread any
STEPFUSE_API size_t stepfuse_dtype_size(stepfuse_dtype dtype);

/// Says what a value exists once for. More granularities may follow.
typedef int32_t stepfuse_granularity;
enum {
  STEPFUSE_PER_STEP = 0,
  STEPFUSE_PER_GROUP = 1,
  STEPFUSE_PER_TENSOR = 2,
  STEPFUSE_PER_ROW = 3,
  STEPFUSE_PER_COLUMN = 4,
  STEPFUSE_PER_ELEMENT = 5
};

/// A CUstream (cudaStream_t). NULL is the legacy stream. The CPU ignores it and has finished on return.
typedef void* stepfuse_stream;

// --- programs

/// A step as text describes it. It does not change once it is made.
typedef struct stepfuse_program stepfuse_program;

/// Makes a program from a step's text. `file` is for messages and may be NULL.
/// @return STEPFUSE_ERROR_PARSE or STEPFUSE_ERROR_VERIFY, with the place
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_parse(const char* text, const char* file,
                                            stepfuse_program** program);

/// Makes a built-in program. An option is "name=value", or the "name" of a flag (see `stepfuse list`).
/// @return STEPFUSE_ERROR_USAGE for an unknown recipe or option, or options that exclude each other
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_recipe(const char* name, const char* const* options,
                                             size_t option_count, stepfuse_program** program);

/// Makes the program of an optimizer's formula (docs/your_optimizer.md) with the pipeline around it. Options are
/// those of stepfuse_recipe. Errors show the place in the text, whose name `file` may be NULL.
/// @return STEPFUSE_ERROR_PARSE or STEPFUSE_ERROR_VERIFY for the text, STEPFUSE_ERROR_USAGE for an option
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_formula(const char* text, const char* file,
                                              const char* const* options, size_t option_count,
                                              stepfuse_program** program);

/// Returns the options that a formula declares, one per line, for stepfuse_free. To see what an option adds, make
/// the program with "with=NAME" and query it.
/// @return STEPFUSE_ERROR_PARSE for the text
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_formula_options(const char* text, const char* file,
                                                      char** names);

/// Returns the formula of a built-in optimizer, for stepfuse_free.
/// @return STEPFUSE_ERROR_USAGE if there is no such optimizer
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_formula_text(const char* recipe, char** text);

/// Makes the program that converts buffer @from, stored in one form, to buffer @to in another (docs/formats.md). A
/// form is "f32", another float type, or a format of option "moments", whose parts are buffers such as
/// @from.fp8.code.
/// @return STEPFUSE_ERROR_USAGE for an unknown form
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_conversion(const char* from, const char* to,
                                                 stepfuse_program** program);

/// Frees a program. Steps that were made from it keep working.
STEPFUSE_API void stepfuse_program_destroy(stepfuse_program* program);

/// Returns the program's text, for stepfuse_free. It parses back to the same program.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_program_print(const stepfuse_program* program, char** text);

/// Returns the step's name, which lives as long as the program. NULL for NULL.
/// @thread any
STEPFUSE_API const char* stepfuse_program_name(const stepfuse_program* program);

/// One array per tensor that the caller owns. Names live as long as the program.
typedef struct stepfuse_buffer {
  size_t struct_size;
  const char* name;
  uint32_t dtypes;      ///< bit 1 << STEPFUSE_F16 and so on: the types that its arrays may have
  int32_t is_written;   ///< whether a step writes it
  int32_t initialised;  ///< whether stepfuse_step_init_state initialises it
  int32_t init_from;    ///< the buffer whose copy it then is; -1: zeros
  /// An array has ceil(elements/block) values. If rows is not 1, it has ceil(the tensor's rows/rows) times
  /// ceil(its columns/block).
  int32_t block, rows;
  uint64_t from, below;  ///< tensors with from <= elements < below have it; give NULL for others
  /// The buffer whose values this one gets in a different order; -1: none. Its arrays form a matrix of lines and
  /// places: ceil(the tensor's rows/rows) lines of ceil(its columns/block) places. If it is transposed, the tensor's
  /// rows and columns change places in this. If it is swizzled, lines are filled up to a multiple of 128 and places to
  /// one of 4.
  int32_t arranges;
  int32_t is_transposed, is_swizzled;
} stepfuse_buffer;

/// A value on the device that a step keeps from run to run.
typedef struct stepfuse_state {
  size_t struct_size;
  const char* name;
  stepfuse_dtype dtype;
  stepfuse_granularity granularity;
  int32_t is_shared;  ///< with other steps, through the scaler
  int32_t is_report;  ///< a statistic: see stepfuse_stats
  uint64_t initial;   ///< as bits
} stepfuse_state;

/// A hyperparameter, given to each run.
typedef struct stepfuse_arg {
  size_t struct_size;
  const char* name;
  stepfuse_dtype dtype;
  stepfuse_granularity granularity;
  int32_t has_default;
  double default_value;
} stepfuse_arg;
#define STEPFUSE_BUFFER {sizeof(stepfuse_buffer), NULL, 0, 0, 0, -1, 1, 1, 0, UINT64_MAX, -1, 0, 0}
#define STEPFUSE_STATE {sizeof(stepfuse_state), NULL, 0, 0, 0, 0, 0}
#define STEPFUSE_ARG {sizeof(stepfuse_arg), NULL, 0, 0, 0, 0.0}

/// Returns how many buffers, states or arguments the program declares; 0 for NULL.
/// @thread any
STEPFUSE_API size_t stepfuse_program_buffer_count(const stepfuse_program* program);
STEPFUSE_API size_t stepfuse_program_state_count(const stepfuse_program* program);
STEPFUSE_API size_t stepfuse_program_arg_count(const stepfuse_program* program);

/// Describes one of them, in the order of declaration.
/// @return STEPFUSE_ERROR_USAGE if the index is out of range
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_program_buffer(const stepfuse_program* program, size_t index,
                                                     stepfuse_buffer* buffer);
STEPFUSE_API stepfuse_status stepfuse_program_state(const stepfuse_program* program, size_t index,
                                                    stepfuse_state* state);
STEPFUSE_API stepfuse_status stepfuse_program_arg(const stepfuse_program* program, size_t index,
                                                  stepfuse_arg* arg);

/// Checks a value as stepfuse_args_set does.
/// @return STEPFUSE_ERROR_USAGE if the argument cannot have the value
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_program_check_arg(const stepfuse_program* program,
                                                        size_t index, double value);

/// Return the names and help texts of the recipes and their options; NULL past the last.
/// @thread any
STEPFUSE_API const char* stepfuse_recipe_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_help(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_help(size_t index);

// --- layout

/// The tensors of a model: sizes, groups and storage types, without pointers.
typedef struct stepfuse_layout stepfuse_layout;

/// The storage type of one buffer's array of a tensor.
typedef struct stepfuse_storage {
  const char* buffer;
  stepfuse_dtype dtype;
} stepfuse_storage;

/// One tensor of a layout. Set the defaults with STEPFUSE_TENSOR or stepfuse_tensor_init(), since zeros alone
/// would leave the tensor out of norm and update.
typedef struct stepfuse_tensor {
  size_t struct_size;
  const char* name;   ///< for messages; may be NULL
  uint64_t elements;  ///< 0 is allowed
  int32_t group;      ///< parameter group, from 0
  uint64_t offset;    ///< of a shard in the full tensor: a multiple of 4 and of the step's blocks
  int32_t uncounted;  ///< the word for counted = 0 before there was `counted`; leave it 0
  int32_t frozen;     ///< the word for updated = 0 before there was `updated`; leave it 0
  const stepfuse_storage* storage;  ///< for buffers that the step declares with several dtypes
  size_t storage_count;
  uint64_t full_elements;  ///< elements of the full tensor of a shard; 0: it ends with this one
  const uint32_t*
      id;  ///< of its random numbers, the same on all ranks; NULL: its number in the layout
  uint64_t columns;  ///< elements of a row; 0: the tensor is one row
  int32_t counted;   ///< 1: it counts in norm and finite check; 0 needs option tensor-flags
  int32_t updated;   ///< 1: a step updates it; 0 needs option tensor-flags
  /// Without elements, 1: it is absent while its gradient is NULL, and present with any other address;
  /// 0: it is present in each step. An absent tensor's steps are not counted.
  int32_t present_by_gradient;
} stepfuse_tensor;
#define STEPFUSE_TENSOR {sizeof(stepfuse_tensor), NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0, 1, 1, 0}

/// Sets the defaults, as STEPFUSE_TENSOR does, in a variable that exists already.
static inline void stepfuse_tensor_init(stepfuse_tensor* tensor) {
  const stepfuse_tensor initial = STEPFUSE_TENSOR;
  *tensor = initial;
}

/// Makes an empty layout.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_layout_create(stepfuse_layout** layout);

/// Frees a layout. Steps that were made with it keep working.
STEPFUSE_API void stepfuse_layout_destroy(stepfuse_layout* layout);

/// Adds a tensor behind the others.
/// @return STEPFUSE_ERROR_BIND if its numbers contradict each other or are too large
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_layout_add(stepfuse_layout* layout,
                                                 const stepfuse_tensor* tensor);

/// Makes room for at least `count` groups, to which tensors may move later.
/// @return STEPFUSE_ERROR_BIND if there cannot be as many
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_layout_reserve_groups(stepfuse_layout* layout, int32_t count);

/// Return the number of tensors, of groups, and of elements of all tensors; 0 for NULL.
/// @thread any
STEPFUSE_API size_t stepfuse_layout_size(const stepfuse_layout* layout);
STEPFUSE_API size_t stepfuse_layout_group_count(const stepfuse_layout* layout);
STEPFUSE_API uint64_t stepfuse_layout_element_count(const stepfuse_layout* layout);

/// Describes one tensor. Its name is valid until a tensor is added, its storage types until the next call.
/// @return STEPFUSE_ERROR_USAGE if the index is out of range
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_layout_tensor(const stepfuse_layout* layout, size_t index,
                                                    stepfuse_tensor* tensor);

// --- device

enum { STEPFUSE_CPU = 0, STEPFUSE_INTERPRETER = 1, STEPFUSE_CUDA = 2 };

/// The device that a step runs on.
typedef struct stepfuse_device {
  size_t struct_size;
  int32_t kind;         ///< STEPFUSE_CPU, STEPFUSE_INTERPRETER or STEPFUSE_CUDA
  int32_t threads;      ///< of the CPU; 0: all that the process may use
  int32_t ordinal;      ///< of the CUDA device
  const char* level;    ///< of the CPU: "host", "x86-64", "x86-64-v3", "x86-64-v4"; NULL: "host"
  const char* options;  ///< of the CUDA emitter, as in "unroll=2,cache=streaming"; may be NULL
} stepfuse_device;
#define STEPFUSE_DEVICE {sizeof(stepfuse_device), STEPFUSE_CPU, 0, 0, NULL, NULL}

/// Sets the defaults, as STEPFUSE_DEVICE does.
static inline void stepfuse_device_init(stepfuse_device* device) {
  const stepfuse_device initial = STEPFUSE_DEVICE;
  *device = initial;
}

// --- loss scaling

/// The loss scale and its trackers, which several steps on one device may share.
typedef struct stepfuse_scaler stepfuse_scaler;

/// How the scale adapts. 0 is the default that stands behind each field.
typedef struct stepfuse_scaler_options {
  size_t struct_size;
  double init_scale;        ///< 65536
  double growth_factor;     ///< 2
  double backoff_factor;    ///< 0.5
  int32_t growth_interval;  ///< 2000
} stepfuse_scaler_options;
#define STEPFUSE_SCALER_OPTIONS {sizeof(stepfuse_scaler_options), 0.0, 0.0, 0.0, 0}

/// Sets the defaults, as STEPFUSE_SCALER_OPTIONS does.
static inline void stepfuse_scaler_options_init(stepfuse_scaler_options* options) {
  const stepfuse_scaler_options initial = STEPFUSE_SCALER_OPTIONS;
  *options = initial;
}

/// Makes a scaler. `options` may be NULL.
/// @return STEPFUSE_ERROR_USAGE for an option that is out of range
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_scaler_create(const stepfuse_scaler_options* options,
                                                    stepfuse_scaler** scaler);

/// Frees a scaler. Steps that use it keep its states until they are freed.
STEPFUSE_API void stepfuse_scaler_destroy(stepfuse_scaler* scaler);

/// Stores the options that the scaler was made with.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_scaler_get_options(const stepfuse_scaler* scaler,
                                                         stepfuse_scaler_options* options);

/// Stores the scale's address on the device, for multiplying the loss.
/// @return STEPFUSE_ERROR_USAGE if no step uses the scaler yet
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_scaler_device_scale(const stepfuse_scaler* scaler,
                                                          const float** scale);

/// Read or write a state by name: "scale", "growth_tracker". Both wait for the device.
/// @return STEPFUSE_ERROR_USAGE for an unknown state, or a scale that is not positive and finite;
///         STEPFUSE_ERROR_DEVICE
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_scaler_read(const stepfuse_scaler* scaler, const char* state,
                                                  double* value);
STEPFUSE_API stepfuse_status stepfuse_scaler_write(stepfuse_scaler* scaler, const char* state,
                                                   double value);

/// Does GradScaler.update(new_scale) after a run: replaces the scale that the run left, and resets the trackers to
/// their values before the run.
/// @return STEPFUSE_ERROR_USAGE for a scale that is not positive and finite; STEPFUSE_ERROR_DEVICE
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_scaler_update(stepfuse_scaler* scaler, double new_scale);

// --- step

/// A program, laid out for a model on a device.
typedef struct stepfuse_step stepfuse_step;

/// The arguments of a run. They belong to the step that made them, and may be shared while no thread sets one.
typedef struct stepfuse_args stepfuse_args;
enum { STEPFUSE_FUSED = 0, STEPFUSE_SPLIT = 1, STEPFUSE_UNFUSED = 2 };

/// How a step is made. Set the defaults with STEPFUSE_STEP_OPTIONS or stepfuse_step_options_init().
typedef struct stepfuse_step_options {
  size_t struct_size;
  int32_t form;             ///< STEPFUSE_FUSED and so on; the bits are the same in every form
  int32_t observe;          ///< 1: stepfuse_step_observe or _reduce will be called
  int32_t stats_ring;       ///< finished steps whose reports are kept; 0: 64
  stepfuse_scaler* scaler;  ///< needed if the program has shared states
  const char* gradient;     ///< the buffer that each run receives; NULL: "grad"; "": none
  /// Allocate and free the step's own memory; set both or neither. They are called while the step is made, grown
  /// or freed, never by a run. allocate returns memory of the device, aligned to at least 256 bytes, or NULL if
  /// there is none.
  void* (*allocate)(void* user, size_t bytes, stepfuse_stream stream);
  void (*release)(void* user, void* memory, size_t bytes, stepfuse_stream stream);
  void* user;
  int32_t unchecked_args;  ///< the former word for check_args = 0; leave it 0
  int32_t reserved;        ///< ignored: the padding at the end of the first version of this struct
  int32_t check_args;      ///< 0: skip range checks on recipe arguments (allows a negative lr)
} stepfuse_step_options;
#define STEPFUSE_STEP_OPTIONS \
  {sizeof(stepfuse_step_options), STEPFUSE_FUSED, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, 0, 1}

/// Sets the defaults, as STEPFUSE_STEP_OPTIONS does.
static inline void stepfuse_step_options_init(stepfuse_step_options* options) {
  const stepfuse_step_options initial = STEPFUSE_STEP_OPTIONS;
  *options = initial;
}

/// Makes a step: plans tables and memory, compiles nothing. `options` may be NULL.
/// @return STEPFUSE_ERROR_BIND if the layout does not fit the program; STEPFUSE_ERROR_USAGE for an option;
///         STEPFUSE_ERROR_DEVICE if there is no such device or too little memory on it
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_step_create(const stepfuse_program* program,
                                                  const stepfuse_layout* layout,
                                                  const stepfuse_device* device,
                                                  const stepfuse_step_options* options,
                                                  stepfuse_step** step);

/// Waits for the step's work and frees it.
/// @thread one
STEPFUSE_API void stepfuse_step_destroy(stepfuse_step* step);

/// Compiles and loads the kernel, or finds it in a cache.
/// @return STEPFUSE_ERROR_COMPILE; STEPFUSE_ERROR_DEVICE if a compiler or the driver is missing or fails
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_prepare(stepfuse_step* step);

/// How the last stepfuse_step_prepare got its kernel.
typedef struct stepfuse_compile_report {
  size_t struct_size;
  int32_t from_memory_cache;
  int32_t from_disk_cache;
  int32_t from_kernel_folder;
  double compile_ms;  ///< emission, compilers, loading
  double prepare_ms;  ///< all of it
  /// Parts of compile_ms: ours; text into LLVM or NVRTC; LLVM's passes; machine code; loading.
  double passes_ms, parse_ms, optimize_ms, codegen_ms, load_ms;
  const char* key;  ///< the text from which the cache key is hashed; valid until the next prepare
} stepfuse_compile_report;
#define STEPFUSE_COMPILE_REPORT \
  {sizeof(stepfuse_compile_report), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL}

/// Stores that report.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_compile_report(const stepfuse_step* step,
                                                          stepfuse_compile_report* report);

/// Sets the arrays of a buffer, one pointer per tensor in the layout's order. A pointer is NULL if the tensor has
/// no elements or no such array. Count, null pointers and alignment are checked here, and overlap at
/// stepfuse_step_init_state and run. C cannot check element types and lengths: C++'s Step::bind does.
/// @return STEPFUSE_ERROR_BIND
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_bind(stepfuse_step* step, const char* buffer,
                                                void* const* pointers, size_t count);

/// Sets states and buffers to their initial values; stepfuse_step_init_tensors does it for tensors from `first` on.
/// @return STEPFUSE_ERROR_BIND if a buffer is not bound or overlaps another; STEPFUSE_ERROR_COMPILE;
///         STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_init_state(stepfuse_step* step, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_init_tensors(stepfuse_step* step, size_t first,
                                                        stepfuse_stream stream);

/// Keeps what the arrays contain, instead of initialising them.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_adopt_state(stepfuse_step* step);

/// Adds a tensor. Then call stepfuse_step_prepare, bind again, and init_tensors. The next call of another function
/// allocates memory for all appended tensors; if that fails, none is added.
/// @return STEPFUSE_ERROR_BIND if the tensor does not fit the program
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_append(stepfuse_step* step,
                                                  const stepfuse_tensor* tensor);

/// Moves a tensor to another group of the layout for all later runs. Nothing is compiled, bound or initialised
/// again. Waits for the device.
/// @return STEPFUSE_ERROR_BIND if the tensor or group does not exist; STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_set_group(stepfuse_step* step, size_t tensor,
                                                     int32_t group);

/// Returns the bytes of device memory that the step owns; 0 for NULL, and after an error, whose message is
/// stepfuse_error_message(): memory for appended tensors could not be allocated.
/// @thread one
STEPFUSE_API size_t stepfuse_step_workspace_bytes(const stepfuse_step* step);

/// Stores the same for a step that does not exist yet, on a device of that kind. `options` may be NULL.
/// @return what stepfuse_step_create returns
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_workspace_bytes(const stepfuse_program* program,
                                                      const stepfuse_layout* layout,
                                                      const stepfuse_step_options* options,
                                                      int32_t device_kind, size_t* bytes);

/// Store copies of what the step is made of, to be destroyed, and its device, whose texts belong to the step.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_program(const stepfuse_step* step,
                                                   stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_step_layout(const stepfuse_step* step,
                                                  stepfuse_layout** layout);
STEPFUSE_API stepfuse_status stepfuse_step_device(const stepfuse_step* step,
                                                  stepfuse_device* device);

// --- arguments

/// Stores the index of an argument: its place in the program's declarations.
/// @return STEPFUSE_ERROR_USAGE for an unknown name
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_arg(const stepfuse_step* step, const char* name,
                                               int32_t* arg);

/// Makes arguments with the program's defaults, then the scaler's.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_make_args(const stepfuse_step* step,
                                                     stepfuse_args** args);

/// Frees arguments.
STEPFUSE_API void stepfuse_args_destroy(stepfuse_args* args);

/// Makes a copy.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_args_copy(const stepfuse_args* args, stepfuse_args** copy);

/// Sets an argument for all its members: groups, or tensors if the argument is per tensor.
/// @return STEPFUSE_ERROR_USAGE if the argument does not exist or cannot have the value
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_args_set(stepfuse_args* args, int32_t arg, double value);

/// Sets an argument for one group, or one tensor if the argument is per tensor.
/// @return STEPFUSE_ERROR_USAGE if argument or member does not exist or the argument cannot have the value
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_args_set_member(stepfuse_args* args, int32_t arg,
                                                      int32_t member, double value);

/// Stores the value of one member.
/// @return STEPFUSE_ERROR_USAGE if argument or member does not exist
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_args_get(const stepfuse_args* args, int32_t arg,
                                               int32_t member, double* value);

/// Copies arguments to the step's own block in device memory, in stream order. A run whose `args` is NULL reads
/// that block: this is how captured graphs get new arguments.
/// @return STEPFUSE_ERROR_USAGE if the arguments are another step's; STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_set_args(stepfuse_step* step, const stepfuse_args* args,
                                                    stepfuse_stream stream);

/// Stores the address of one argument in that block, which work on the device may overwrite.
/// @return STEPFUSE_ERROR_USAGE if argument or member does not exist
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_device_arg(const stepfuse_step* step, int32_t arg,
                                                      int32_t member, void** address);

/// Makes arguments that every run reads from a block of the caller's in device memory.
/// Each run checks the address.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_args_at(const stepfuse_step* step, const void* block,
                                                   stepfuse_args** args);

/// Describe a block of the caller's: its bytes (0 after an error), an argument's offset in it, and its contents in
/// words of 8 bytes.
/// @return STEPFUSE_ERROR_USAGE if argument or member does not exist, or `count` is not the block's words
/// @thread one
STEPFUSE_API size_t stepfuse_step_args_bytes(const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_step_arg_offset(const stepfuse_step* step, int32_t arg,
                                                      int32_t member, size_t* offset);
STEPFUSE_API stepfuse_status stepfuse_step_write_args(const stepfuse_step* step,
                                                      const stepfuse_args* args, uint64_t* words,
                                                      size_t count);

// --- run

/// Runs one step. There is one gradient per tensor, NULL if the tensor has none this time. Addresses may change at
/// every call. After the first run it allocates nothing, takes no lock and does not wait. If `args` is NULL, the
/// arguments are those of stepfuse_step_set_args.
/// @return STEPFUSE_ERROR_BIND for a wrong gradient, or a buffer that is not bound or not initialised;
///         STEPFUSE_ERROR_USAGE before stepfuse_step_prepare; STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_run(stepfuse_step* step, void* const* gradients,
                                               size_t count, const stepfuse_args* args,
                                               stepfuse_stream stream);

/// Runs the first phase for tensors [first, first + count), while others are still being computed.
/// @return what stepfuse_step_run returns; STEPFUSE_ERROR_USAGE without the option `observe`
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_observe(stepfuse_step* step, size_t first,
                                                   void* const* gradients, size_t count,
                                                   const stepfuse_args* args,
                                                   stepfuse_stream stream);

/// Completes the first phase and its reductions. Work on the stream may then replace the results that
/// stepfuse_step_partial names, before a run with the same gradients continues.
/// @return what stepfuse_step_run returns; STEPFUSE_ERROR_USAGE without the option `observe`
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_reduce(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const stepfuse_args* args,
                                                  stepfuse_stream stream);

/// Do the same three with the block itself instead of arguments made with stepfuse_step_args_at.
/// @return what the functions without "_at" return
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_run_at(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const void* args,
                                                  stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_observe_at(stepfuse_step* step, size_t first,
                                                      void* const* gradients, size_t count,
                                                      const void* args, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_reduce_at(stepfuse_step* step, void* const* gradients,
                                                     size_t count, const void* args,
                                                     stepfuse_stream stream);

/// One reduction that stepfuse_step_reduce leaves in the block [block, block + bytes), f32 first.
typedef struct stepfuse_partial {
  size_t struct_size;
  char name[64];  ///< of its value in the program, perhaps cut
  char op[32];    ///< "reduce_add" and so on
  stepfuse_dtype dtype;
  size_t count;           ///< 1, groups or tensors
  size_t offset;          ///< bytes from the block's start
  const void* pieces;     ///< inputs of the fold: one value per piece of 16,384 elements
  size_t piece_count;     ///< how many there are
  const char* full_name;  ///< the whole name; valid until another partial of the step is read
  int pipeline;  ///< 1: part of the norm or the check; 0: part of the optimizer's own formula
} stepfuse_partial;
#define STEPFUSE_PARTIAL {sizeof(stepfuse_partial), "", "", 0, 0, 0, NULL, 0, NULL, 0}

/// Store the block and the number of partials; one by index; and one by name.
/// @return STEPFUSE_ERROR_USAGE without the option `observe`, or if there is no such partial
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_partials(const stepfuse_step* step, void** block,
                                                    size_t* bytes, size_t* count);
STEPFUSE_API stepfuse_status stepfuse_step_partial(const stepfuse_step* step, size_t index,
                                                   stepfuse_partial* partial);
STEPFUSE_API stepfuse_status stepfuse_step_partial_at(const stepfuse_step* step, const char* name,
                                                      stepfuse_partial* partial);

/// Folds `count` pieces in host memory, in one device's order, and makes the result what a run of the step finds as the
/// reduction with that index. Devices that have shards of the tensors exchange the pieces of stepfuse_step_partial
/// and call this between reduce and run. The step's memory must be the host's.
/// @return STEPFUSE_ERROR_USAGE if the step has no such reduction, or its memory is a GPU's
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_fold_pieces(stepfuse_step* step, size_t index,
                                                       const void* pieces, size_t count);

// --- statistics

/// The reports of one finished step.
typedef struct stepfuse_stats stepfuse_stats;

/// Makes an object for reports.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_stats_create(stepfuse_stats** stats);

/// Frees it.
STEPFUSE_API void stepfuse_stats_destroy(stepfuse_stats* stats);

/// Fill in the reports of the newest finished step. stepfuse_step_latest does not wait; stepfuse_step_stats waits
/// for the stream. *found is 0 if no step has finished.
/// @return STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_latest(const stepfuse_step* step, stepfuse_stats* stats,
                                                  int32_t* found);
STEPFUSE_API stepfuse_status stepfuse_step_stats(const stepfuse_step* step, stepfuse_stream stream,
                                                 stepfuse_stats* stats, int32_t* found);

/// Calls `each` for every finished step that is still in the ring, oldest first.
/// @return STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_history(
    const stepfuse_step* step, void (*each)(void* user, const stepfuse_stats* stats), void* user);

/// Returns the step's number, from 0.
/// @thread any
STEPFUSE_API uint64_t stepfuse_stats_index(const stepfuse_stats* stats);

/// Stores one report by name.
/// @return STEPFUSE_ERROR_USAGE if the step does not report it, or reports it per group or tensor
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_stats_get(const stepfuse_stats* stats, const char* report,
                                                double* value);

/// Return the number of reports, and their names; NULL past the last.
/// @thread any
STEPFUSE_API size_t stepfuse_stats_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_name(const stepfuse_stats* stats, size_t index);

/// The same for reports with a value per group or tensor, such as grad_norm with clip-per-group. The values live
/// until `stats` is filled again.
/// @return STEPFUSE_ERROR_USAGE if the step does not report it, or reports one value
/// @thread any
STEPFUSE_API size_t stepfuse_stats_list_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_list_name(const stepfuse_stats* stats, size_t index);
STEPFUSE_API stepfuse_status stepfuse_stats_list(const stepfuse_stats* stats, const char* report,
                                                 const double** values, size_t* count);

/// Returns all reports as one line of JSON, for stepfuse_free.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_stats_json(const stepfuse_stats* stats, char** line);

/// Rules over statistics; see stepfuse/monitor.hpp.
typedef struct stepfuse_monitor stepfuse_monitor;

/// Is called when a rule has held for its number of steps.
typedef void (*stepfuse_finding)(void* user, const stepfuse_stats* stats, const char* message);

/// A rule's condition: 1 if it holds, 0 if not, less than 0 if the step does not report what it needs.
typedef int32_t (*stepfuse_condition)(void* user, const stepfuse_stats* stats);

/// Makes a monitor without rules.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_monitor_create(stepfuse_monitor** monitor);

/// Frees a monitor.
STEPFUSE_API void stepfuse_monitor_destroy(stepfuse_monitor* monitor);

/// Add a rule: the loss scale fell below a limit; the norm was above a share of max_norm for some steps in a row;
/// no clipping in the last steps; steps skipped in a row; a condition of the caller's.
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_monitor_scale_below(stepfuse_monitor* monitor, double limit,
                                                          stepfuse_finding finding, void* user);
STEPFUSE_API stepfuse_status stepfuse_monitor_norm_near(stepfuse_monitor* monitor, double max_norm,
                                                        double share, int32_t in_a_row,
                                                        stepfuse_finding finding, void* user);
STEPFUSE_API stepfuse_status stepfuse_monitor_never_clipped(stepfuse_monitor* monitor,
                                                            int32_t steps, stepfuse_finding finding,
                                                            void* user);
STEPFUSE_API stepfuse_status stepfuse_monitor_skipped(stepfuse_monitor* monitor, int32_t in_a_row,
                                                      stepfuse_finding finding, void* user);
STEPFUSE_API stepfuse_status stepfuse_monitor_rule(stepfuse_monitor* monitor, const char* name,
                                                   stepfuse_condition holds, int32_t in_a_row,
                                                   stepfuse_finding finding, void* user);

/// Look at the steps that finished since the last call; or at one step.
/// @return STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_monitor_feed(stepfuse_monitor* monitor,
                                                   const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_monitor_feed_stats(stepfuse_monitor* monitor,
                                                         const stepfuse_stats* stats);

/// Returns how many steps left the ring before the monitor saw them.
/// @thread one
STEPFUSE_API uint64_t stepfuse_monitor_lost(const stepfuse_monitor* monitor);

// --- states and checkpoints

/// Read or write a state as bits, one word per value whatever its dtype. Both wait for the device. *count is the
/// number of values. Reading into less room is an error; a `capacity` of 0 only asks for the count.
/// @return STEPFUSE_ERROR_USAGE for an unknown state or a wrong count; STEPFUSE_ERROR_DEVICE
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_read_state(const stepfuse_step* step, const char* name,
                                                      uint64_t* values, size_t capacity,
                                                      size_t* count, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_write_state(stepfuse_step* step, const char* name,
                                                       const uint64_t* values, size_t count,
                                                       stepfuse_stream stream);

/// Stores the state's address on the device, valid until stepfuse_step_append.
/// @return STEPFUSE_ERROR_USAGE for an unknown state
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_step_device_state(const stepfuse_step* step, const char* name,
                                                        void** address);

/// Names of states and buffers, as in "ema", in which step and file may differ.
typedef struct stepfuse_load_options {
  size_t struct_size;
  const char* const* optional;  ///< the file may lack these: they keep what init_state gave them
  size_t optional_count;
  const char* const* ignored;  ///< the file may have these though the step does not
  size_t ignored_count;
} stepfuse_load_options;
#define STEPFUSE_LOAD_OPTIONS {sizeof(stepfuse_load_options), NULL, 0, NULL, 0}

/// Sets the defaults, as STEPFUSE_LOAD_OPTIONS does.
static inline void stepfuse_load_options_init(stepfuse_load_options* options) {
  const stepfuse_load_options initial = STEPFUSE_LOAD_OPTIONS;
  *options = initial;
}

/// Save and load states and arrays (docs/checkpoints.md). Both wait for the device. A file is written completely or
/// not at all, and checked completely before anything is loaded. `options` may be NULL.
/// @return STEPFUSE_ERROR_USAGE for a damaged file, or one of another step or layout; STEPFUSE_ERROR_BIND if a buffer
///         is not bound; STEPFUSE_ERROR_DEVICE if a file cannot be read or written
/// @thread one
STEPFUSE_API stepfuse_status stepfuse_save_checkpoint(const char* path, const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint(const char* path, stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint_with(const char* path, stepfuse_step* step,
                                                           const stepfuse_load_options* options);

/// Writes the checkpoint `from` to the file `to` with its moments in a different form, as `stepfuse convert` does.
/// `moments` is "f32", "fp8" or a list such as "exp_avg=int8,exp_avg_sq@4096=sqrt8". Everything else is copied.
/// @param below  tensors with fewer elements get f32 moments, unless '@' gives a number
/// @return STEPFUSE_ERROR_USAGE for a damaged file, an unknown format, or a moment that the file lacks
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_convert_checkpoint(const char* from, const char* to,
                                                         const char* moments, uint64_t below);

// --- kernels

/// Makes this process look for kernels in a folder that `stepfuse aot` made, before it compiles any.
/// $STEPFUSE_KERNELS does the same.
/// @return STEPFUSE_ERROR_USAGE if the folder does not exist
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_use_kernels(const char* folder);

/// Numbers of kernels that this process compiled and found in memory so far.
typedef struct stepfuse_cache_counts {
  size_t struct_size;
  uint64_t compiled;
  uint64_t hits;
} stepfuse_cache_counts;
#define STEPFUSE_CACHE_COUNTS {sizeof(stepfuse_cache_counts), 0, 0}

/// Stores those numbers.
/// @thread any
STEPFUSE_API stepfuse_status stepfuse_cache_stats(stepfuse_cache_counts* counts);

// --- former names

typedef stepfuse_cache_counts stepfuse_cache;
#define STEPFUSE_CACHE STEPFUSE_CACHE_COUNTS

/// Are stepfuse_args_set_member and stepfuse_step_stats under the names that they had first.
STEPFUSE_DEPRECATED("stepfuse_args_set_member")
STEPFUSE_API stepfuse_status stepfuse_args_set_group(stepfuse_args* args, int32_t arg,
                                                     int32_t member, double value);
STEPFUSE_DEPRECATED("stepfuse_step_stats")
STEPFUSE_API stepfuse_status stepfuse_step_wait(const stepfuse_step* step, stepfuse_stream stream,
                                                stepfuse_stats* stats, int32_t* found);

#ifdef __cplusplus
}
#endif

#endif
