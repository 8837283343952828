// stepfuse for C, and for whatever calls C: everything between backward() and the next forward() as
// one kernel. Knows only C; docs/embedding.md explains it, stepfuse.hpp says what each thing means.
//
//   stepfuse_program* program;
//   const char* options[] = {"grad=f16", "master", "loss-scale=dynamic", "clip=l2"};
//   if (stepfuse_recipe("adamw", options, 4, &program)) die(stepfuse_error_message());
//   stepfuse_layout* layout;
//   stepfuse_layout_create(&layout);
//   stepfuse_tensor tensor = STEPFUSE_TENSOR;
//   tensor.elements = 1000;
//   stepfuse_layout_add(layout, &tensor);
//   stepfuse_device device = STEPFUSE_DEVICE;                  // the CPU, all threads
//   stepfuse_step_options more = STEPFUSE_STEP_OPTIONS;
//   more.scaler = scaler;
//   stepfuse_step_create(program, layout, &device, &more, &step);
//   stepfuse_step_prepare(step);                               // compiles; run never compiles
//   stepfuse_step_bind(step, "weight", weights, 1);
//   stepfuse_step_init_state(step, NULL);
//   stepfuse_step_make_args(step, &args);
//   for (...) {
//     stepfuse_args_set(args, lr, schedule(i));
//     stepfuse_step_run(step, gradients, 1, args, stream);
//   }
//
// A function that returns a status other than 0 has changed nothing. No C++ exception leaves it. Functions
// that make a handle store it through their last parameter; stepfuse_<handle>_destroy frees it and accepts
// NULL. Use a handle from one thread at a time. Programs and layouts may be freed once a step has been made,
// a scaler only after its steps. `elements` counts array elements; `size` is a struct's size in bytes.
//
// Structs begin with their size, which initialisers such as STEPFUSE_DEVICE set: later versions append fields,
// and 0 or NULL is the default. Within a symbol version, functions are never removed or changed in meaning.
#ifndef STEPFUSE_STEPFUSE_H
#define STEPFUSE_STEPFUSE_H

#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#define STEPFUSE_API __attribute__((visibility("default")))
#else
#define STEPFUSE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- errors

typedef int32_t stepfuse_status;
enum {
  STEPFUSE_OK = 0,
  STEPFUSE_ERROR_PARSE = 1,          // in a step's text: see stepfuse_error_place
  STEPFUSE_ERROR_VERIFY = 2,         // the text's meaning: types, domains
  STEPFUSE_ERROR_BIND = 3,           // layout or pointers do not fit the step
  STEPFUSE_ERROR_COMPILE = 4,        // a compiler refused a kernel
  STEPFUSE_ERROR_DEVICE = 5,         // no device, driver or compiler, or it failed; files
  STEPFUSE_ERROR_USAGE = 6,          // an argument of the call
  STEPFUSE_ERROR_OUT_OF_MEMORY = 7,  // of the host
  STEPFUSE_ERROR_INTERNAL = 8        // a bug in stepfuse
};

// What went wrong in this thread's last failed call, and what to do; empty if none has failed.
STEPFUSE_API const char* stepfuse_error_message(void);
// Where in a step's text, from 1; 0 if it was not about text.
STEPFUSE_API void stepfuse_error_place(int32_t* line, int32_t* column);

STEPFUSE_API const char* stepfuse_version(void);  // "0.1.0"
// Frees a text that a function returned through a char**.
STEPFUSE_API void stepfuse_free(char* text);

// --- types

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
  STEPFUSE_I16 = 11
};
STEPFUSE_API const char* stepfuse_dtype_name(stepfuse_dtype dtype);  // "f32"; NULL for no dtype
STEPFUSE_API size_t stepfuse_dtype_size(stepfuse_dtype dtype);       // bytes; 0 for no dtype
typedef int32_t stepfuse_domain;  // what has a value of its own; more may follow
enum {
  STEPFUSE_PER_STEP = 0,
  STEPFUSE_PER_GROUP = 1,
  STEPFUSE_PER_TENSOR = 2,
  STEPFUSE_PER_ROW = 3,
  STEPFUSE_PER_COLUMN = 4,
  STEPFUSE_PER_ELEMENT = 5
};

// A CUstream (cudaStream_t); NULL is the legacy stream. The CPU ignores it and is done on return.
typedef void* stepfuse_stream;

// --- programs
typedef struct stepfuse_program stepfuse_program;

// A step from its text; `file` is for messages and may be NULL.
STEPFUSE_API stepfuse_status stepfuse_parse(const char* text, const char* file,
                                            stepfuse_program** program);
// A built-in one. An option is "name=value", or the "name" of a flag (see `stepfuse list`).
STEPFUSE_API stepfuse_status stepfuse_recipe(const char* name, const char* const* options,
                                             size_t option_count, stepfuse_program** program);
STEPFUSE_API void stepfuse_program_destroy(stepfuse_program* program);
// The text; parses back to the same program.
STEPFUSE_API stepfuse_status stepfuse_program_print(const stepfuse_program* program, char** text);
STEPFUSE_API const char* stepfuse_program_name(const stepfuse_program* program);

// What a program declares; names live as long as it. An index out of range is STEPFUSE_ERROR_USAGE.
typedef struct stepfuse_buffer {
  size_t size;
  const char* name;
  uint32_t dtypes;      // bit 1 << STEPFUSE_F16 and so on: what its arrays may be stored as
  int32_t is_written;   // by a step
  int32_t initialised;  // by stepfuse_step_init_state
  int32_t init_from;    // with a copy of that buffer; -1: with zeros
  // ceil(elements/block) values; where `rows` is not 1, ceil(a tensor's rows/`rows`) times
  // ceil(its columns/block).
  int32_t block, rows;
  uint64_t from, below;  // only tensors of from <= elements < below have it; NULL for others
} stepfuse_buffer;
typedef struct stepfuse_state {
  size_t size;
  const char* name;
  stepfuse_dtype dtype;
  stepfuse_domain domain;
  int32_t is_shared;  // with other steps, through the scaler
  int32_t is_report;  // a statistic: see stepfuse_stats
  uint64_t initial;   // bits
} stepfuse_state;
typedef struct stepfuse_arg {
  size_t size;
  const char* name;
  stepfuse_dtype dtype;
  stepfuse_domain domain;
  int32_t has_default;
  double default_value;
} stepfuse_arg;
#define STEPFUSE_BUFFER {sizeof(stepfuse_buffer), NULL, 0, 0, 0, -1, 1, 1, 0, UINT64_MAX}
#define STEPFUSE_STATE {sizeof(stepfuse_state), NULL, 0, 0, 0, 0, 0}
#define STEPFUSE_ARG {sizeof(stepfuse_arg), NULL, 0, 0, 0, 0.0}
STEPFUSE_API size_t stepfuse_program_buffer_count(const stepfuse_program* program);
STEPFUSE_API size_t stepfuse_program_state_count(const stepfuse_program* program);
STEPFUSE_API size_t stepfuse_program_arg_count(const stepfuse_program* program);
STEPFUSE_API stepfuse_status stepfuse_program_buffer(const stepfuse_program* program, size_t index,
                                                     stepfuse_buffer* buffer);
STEPFUSE_API stepfuse_status stepfuse_program_state(const stepfuse_program* program, size_t index,
                                                    stepfuse_state* state);
STEPFUSE_API stepfuse_status stepfuse_program_arg(const stepfuse_program* program, size_t index,
                                                  stepfuse_arg* arg);
// Checks a value as stepfuse_args_set does: STEPFUSE_ERROR_USAGE if the argument cannot have it.
STEPFUSE_API stepfuse_status stepfuse_program_check_arg(const stepfuse_program* program,
                                                        size_t index, double value);

// The recipes and their options, for help texts; NULL past the last.
STEPFUSE_API const char* stepfuse_recipe_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_help(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_help(size_t index);

// --- layout

typedef struct stepfuse_layout stepfuse_layout;
// The storage type of one buffer's array of a tensor.
typedef struct stepfuse_storage {
  const char* buffer;
  stepfuse_dtype dtype;
} stepfuse_storage;

typedef struct stepfuse_tensor {
  size_t size;
  const char* name;                 // for messages
  uint64_t elements;                // 0 is allowed
  int32_t group;                    // parameter group, from 0
  uint64_t offset;                  // of a shard in the full tensor, a multiple of 16,384
  int32_t uncounted;                // left out of norm and finite check (recipes with tensor-flags)
  int32_t frozen;                   // not updated (recipes with tensor-flags)
  const stepfuse_storage* storage;  // for buffers that the step declares with several dtypes
  size_t storage_count;
  uint64_t full_size;  // elements of the full tensor of a shard; 0: it ends with this one
  const uint32_t* id;  // of its random numbers, alike on all ranks; NULL: its number in the layout
  uint64_t columns;    // elements of a row; 0: it is one row
} stepfuse_tensor;
#define STEPFUSE_TENSOR {sizeof(stepfuse_tensor), NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0}

STEPFUSE_API stepfuse_status stepfuse_layout_create(stepfuse_layout** layout);
STEPFUSE_API void stepfuse_layout_destroy(stepfuse_layout* layout);
STEPFUSE_API stepfuse_status stepfuse_layout_add(stepfuse_layout* layout,
                                                 const stepfuse_tensor* tensor);
// What is in it. Its name is valid until the layout is added to, its storage types until the next
// call.
STEPFUSE_API size_t stepfuse_layout_size(const stepfuse_layout* layout);
STEPFUSE_API size_t stepfuse_layout_group_count(const stepfuse_layout* layout);
STEPFUSE_API uint64_t stepfuse_layout_element_count(const stepfuse_layout* layout);
STEPFUSE_API stepfuse_status stepfuse_layout_tensor(const stepfuse_layout* layout, size_t index,
                                                    stepfuse_tensor* tensor);

// --- device

enum { STEPFUSE_CPU = 0, STEPFUSE_INTERPRETER = 1, STEPFUSE_CUDA = 2 };
typedef struct stepfuse_device {
  size_t size;
  int32_t kind;
  int32_t threads;      // of the CPU; 0: all that the process may use
  int32_t ordinal;      // of the CUDA device
  const char* level;    // of the CPU: "host", "x86-64", "x86-64-v3", "x86-64-v4"
  const char* options;  // of the CUDA emitter, as in "unroll=2,cache=streaming"
} stepfuse_device;
#define STEPFUSE_DEVICE {sizeof(stepfuse_device), STEPFUSE_CPU, 0, 0, NULL, NULL}

// --- loss scaling

typedef struct stepfuse_scaler stepfuse_scaler;

typedef struct stepfuse_scaler_options {
  size_t size;
  double init_scale;        // 65536
  double growth_factor;     // 2
  double backoff_factor;    // 0.5
  int32_t growth_interval;  // 2000
} stepfuse_scaler_options;
#define STEPFUSE_SCALER_OPTIONS {sizeof(stepfuse_scaler_options), 0.0, 0.0, 0.0, 0}

STEPFUSE_API stepfuse_status stepfuse_scaler_create(const stepfuse_scaler_options* options,
                                                    stepfuse_scaler** scaler);
STEPFUSE_API void stepfuse_scaler_destroy(stepfuse_scaler* scaler);
STEPFUSE_API stepfuse_status stepfuse_scaler_get_options(const stepfuse_scaler* scaler,
                                                         stepfuse_scaler_options* options);
// The scale on the device, to multiply the loss with; once a step is made with the scaler.
STEPFUSE_API stepfuse_status stepfuse_scaler_device_scale(const stepfuse_scaler* scaler,
                                                          const float** scale);
// A state by name ("scale", "growth_tracker"); wait for the device.
STEPFUSE_API stepfuse_status stepfuse_scaler_read(const stepfuse_scaler* scaler, const char* state,
                                                  double* value);
STEPFUSE_API stepfuse_status stepfuse_scaler_write(stepfuse_scaler* scaler, const char* state,
                                                   double value);
// GradScaler.update(new_scale), after a run: this scale instead of the one that the run left, and
// the trackers as they were before it.
STEPFUSE_API stepfuse_status stepfuse_scaler_update(stepfuse_scaler* scaler, double new_scale);

// --- step

typedef struct stepfuse_step stepfuse_step;
typedef struct stepfuse_args stepfuse_args;
enum { STEPFUSE_FUSED = 0, STEPFUSE_SPLIT = 1, STEPFUSE_UNFUSED = 2 };
typedef struct stepfuse_step_options {
  size_t size;
  int32_t form;             // the bits are the same in every form
  int32_t observe;          // stepfuse_step_observe or _reduce will be called
  int32_t stats_ring;       // finished steps whose reports are kept; 0: 64
  stepfuse_scaler* scaler;  // needed if the program has shared states
  const char* gradient;     // the buffer that is given at each run; NULL: "grad"
  // Allocate and free the step's own memory; set both or neither. They are called while the step is made, grown
  // or freed, never by a run. allocate returns memory of the device, aligned to at least 256 bytes, or NULL if
  // there is none.
  void* (*allocate)(void* user, size_t bytes, stepfuse_stream stream);
  void (*release)(void* user, void* memory, size_t bytes, stepfuse_stream stream);
  void* user;
  int32_t unchecked_args;  // 1: skip range checks on recipe arguments (allows a negative lr)
} stepfuse_step_options;
#define STEPFUSE_STEP_OPTIONS \
  {sizeof(stepfuse_step_options), STEPFUSE_FUSED, 0, 0, NULL, NULL, NULL, NULL, NULL, 0}

// `options` may be NULL.
STEPFUSE_API stepfuse_status stepfuse_step_create(const stepfuse_program* program,
                                                  const stepfuse_layout* layout,
                                                  const stepfuse_device* device,
                                                  const stepfuse_step_options* options,
                                                  stepfuse_step** step);
STEPFUSE_API void stepfuse_step_destroy(stepfuse_step* step);
// Compiles and loads the kernel, or finds it in a cache.
STEPFUSE_API stepfuse_status stepfuse_step_prepare(stepfuse_step* step);

typedef struct stepfuse_compile_report {
  size_t size;
  int32_t from_memory_cache;
  int32_t from_disk_cache;
  int32_t from_kernel_folder;
  double compile_ms;  // emission, compilers, loading
  double prepare_ms;  // all of it
  // compile_ms in parts: ours; text into LLVM or NVRTC; LLVM's passes; machine code; loading.
  double passes_ms, parse_ms, optimize_ms, codegen_ms, load_ms;
  const char* key;  // what the caches know the kernel by, to read; valid until the next prepare
} stepfuse_compile_report;
#define STEPFUSE_COMPILE_REPORT \
  {sizeof(stepfuse_compile_report), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL}
STEPFUSE_API stepfuse_status stepfuse_step_compile_report(const stepfuse_step* step,
                                                          stepfuse_compile_report* report);

// The arrays of a buffer, one pointer per tensor (NULL where it has no elements, or no such array).
STEPFUSE_API stepfuse_status stepfuse_step_bind(stepfuse_step* step, const char* buffer,
                                                void* const* pointers, size_t count);
// States and buffers to their initial values; or those of the tensors from `first` on only.
STEPFUSE_API stepfuse_status stepfuse_step_init_state(stepfuse_step* step, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_init_tensors(stepfuse_step* step, size_t first,
                                                        stepfuse_stream stream);
// Instead of both: the arrays hold what the step shall go on from.
STEPFUSE_API stepfuse_status stepfuse_step_adopt_state(stepfuse_step* step);
// Adds a tensor; then prepare, bind again, and init_tensors. The next call with the step makes memory for all
// tensors that were added; where that fails, none is added.
STEPFUSE_API stepfuse_status stepfuse_step_append(stepfuse_step* step,
                                                  const stepfuse_tensor* tensor);
// Bytes of the step's own memory on its device.
STEPFUSE_API size_t stepfuse_step_workspace_bytes(const stepfuse_step* step);
// The same for a step that is not made yet, on a device of that kind; `options` may be NULL.
STEPFUSE_API stepfuse_status stepfuse_workspace_bytes(const stepfuse_program* program,
                                                      const stepfuse_layout* layout,
                                                      const stepfuse_step_options* options,
                                                      int32_t device_kind, size_t* bytes);
// What the step is made of: copies, to be destroyed, and the device, with texts of the step's.
STEPFUSE_API stepfuse_status stepfuse_step_program(const stepfuse_step* step,
                                                   stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_step_layout(const stepfuse_step* step,
                                                  stepfuse_layout** layout);
STEPFUSE_API stepfuse_status stepfuse_step_device(const stepfuse_step* step,
                                                  stepfuse_device* device);

// --- arguments

// Index of an argument by name: its place in the program's declarations.
STEPFUSE_API stepfuse_status stepfuse_step_arg(const stepfuse_step* step, const char* name,
                                               int32_t* arg);
// With the program's defaults, then the scaler's.
STEPFUSE_API stepfuse_status stepfuse_step_make_args(const stepfuse_step* step,
                                                     stepfuse_args** args);
STEPFUSE_API void stepfuse_args_destroy(stepfuse_args* args);
STEPFUSE_API stepfuse_status stepfuse_args_copy(const stepfuse_args* args, stepfuse_args** copy);
// For every group, or for one; of an argument that tensors have, for every tensor, or for one.
STEPFUSE_API stepfuse_status stepfuse_args_set(stepfuse_args* args, int32_t arg, double value);
STEPFUSE_API stepfuse_status stepfuse_args_set_group(stepfuse_args* args, int32_t arg,
                                                     int32_t group, double value);
STEPFUSE_API stepfuse_status stepfuse_args_get(const stepfuse_args* args, int32_t arg,
                                               int32_t group, double* value);

// Arguments in device memory, for graphs: set_args fills the step's own block in stream order, and
// a run whose `args` is NULL reads it; device_arg is where one stands in it.
STEPFUSE_API stepfuse_status stepfuse_step_set_args(stepfuse_step* step, const stepfuse_args* args,
                                                    stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_device_arg(const stepfuse_step* step, int32_t arg,
                                                      int32_t group, void** address);
// A block of the caller's: its bytes, an argument's offset in it, and its contents in words of 8 bytes.
// Arguments made with args_at are read from the block by every run that is given them.
STEPFUSE_API stepfuse_status stepfuse_step_args_at(const stepfuse_step* step, const void* block,
                                                   stepfuse_args** args);
STEPFUSE_API size_t stepfuse_step_args_bytes(const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_step_arg_offset(const stepfuse_step* step, int32_t arg,
                                                      int32_t group, size_t* offset);
STEPFUSE_API stepfuse_status stepfuse_step_write_args(const stepfuse_step* step,
                                                      const stepfuse_args* args, uint64_t* words,
                                                      size_t count);

// --- run

// One step. One gradient per tensor, NULL if it has none this time; addresses may change at every call.
// After the first, it neither allocates, locks nor waits. args NULL: those of set_args.
STEPFUSE_API stepfuse_status stepfuse_step_run(stepfuse_step* step, void* const* gradients,
                                               size_t count, const stepfuse_args* args,
                                               stepfuse_stream stream);
// The first phase of tensors [first, first + count), while others are still being computed.
STEPFUSE_API stepfuse_status stepfuse_step_observe(stepfuse_step* step, size_t first,
                                                   void* const* gradients, size_t count,
                                                   const stepfuse_args* args,
                                                   stepfuse_stream stream);
// The rest of the first phase and its reductions. What stepfuse_step_partial names may then be replaced on
// the stream, before a run with the same gradients continues from it.
STEPFUSE_API stepfuse_status stepfuse_step_reduce(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const stepfuse_args* args,
                                                  stepfuse_stream stream);
// The same three, with the block itself instead of arguments made with args_at.
STEPFUSE_API stepfuse_status stepfuse_step_run_at(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const void* args,
                                                  stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_observe_at(stepfuse_step* step, size_t first,
                                                      void* const* gradients, size_t count,
                                                      const void* args, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_reduce_at(stepfuse_step* step, void* const* gradients,
                                                     size_t count, const void* args,
                                                     stepfuse_stream stream);

// One reduction that reduce leaves in the block [block, block + bytes), f32 first.
typedef struct stepfuse_partial {
  size_t size;
  char name[64];  // of its value in the program, perhaps cut
  char op[32];    // "reduce.add"
  stepfuse_dtype dtype;
  size_t count;   // 1, groups or tensors
  size_t offset;  // bytes from the block's start
  const void* pieces;
  size_t piece_count;
  const char* full_name;  // all of it; valid until another partial of the step is read
  int pipeline;           // 1: of the norm or the check; 0: of the optimizer's own formula
} stepfuse_partial;
#define STEPFUSE_PARTIAL {sizeof(stepfuse_partial), "", "", 0, 0, 0, NULL, 0, NULL, 0}
STEPFUSE_API stepfuse_status stepfuse_step_partials(const stepfuse_step* step, void** block,
                                                    size_t* bytes, size_t* count);
STEPFUSE_API stepfuse_status stepfuse_step_partial(const stepfuse_step* step, size_t index,
                                                   stepfuse_partial* partial);
STEPFUSE_API stepfuse_status stepfuse_step_partial_at(const stepfuse_step* step, const char* name,
                                                      stepfuse_partial* partial);

// --- statistics

typedef struct stepfuse_stats stepfuse_stats;  // the reports of one finished step

STEPFUSE_API stepfuse_status stepfuse_stats_create(stepfuse_stats** stats);
STEPFUSE_API void stepfuse_stats_destroy(stepfuse_stats* stats);
// Of the newest finished step, without waiting; or with. *found is 0 where none has finished.
STEPFUSE_API stepfuse_status stepfuse_step_latest(const stepfuse_step* step, stepfuse_stats* stats,
                                                  int32_t* found);
STEPFUSE_API stepfuse_status stepfuse_step_wait(const stepfuse_step* step, stepfuse_stream stream,
                                                stepfuse_stats* stats, int32_t* found);
// Every finished step still in the ring, oldest first.
STEPFUSE_API stepfuse_status stepfuse_step_history(
    const stepfuse_step* step, void (*each)(void* user, const stepfuse_stats* stats), void* user);
STEPFUSE_API uint64_t stepfuse_stats_index(const stepfuse_stats* stats);
STEPFUSE_API stepfuse_status stepfuse_stats_get(const stepfuse_stats* stats, const char* report,
                                                double* value);
STEPFUSE_API size_t stepfuse_stats_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_name(const stepfuse_stats* stats, size_t index);
// Reports of groups and tensors, which have a value for each (grad_norm with clip-per-group). The
// values live until `stats` is filled again.
STEPFUSE_API size_t stepfuse_stats_list_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_list_name(const stepfuse_stats* stats, size_t index);
STEPFUSE_API stepfuse_status stepfuse_stats_list(const stepfuse_stats* stats, const char* report,
                                                 const double** values, size_t* count);
STEPFUSE_API stepfuse_status stepfuse_stats_json(const stepfuse_stats* stats, char** line);

// Rules over them; see stepfuse/monitor.hpp.
typedef struct stepfuse_monitor stepfuse_monitor;
typedef void (*stepfuse_finding)(void* user, const stepfuse_stats* stats, const char* message);

STEPFUSE_API stepfuse_status stepfuse_monitor_create(stepfuse_monitor** monitor);
STEPFUSE_API void stepfuse_monitor_destroy(stepfuse_monitor* monitor);
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
// A rule of the caller's. `holds` says 1, 0, or less where the step does not report what it asks
// for.
typedef int32_t (*stepfuse_condition)(void* user, const stepfuse_stats* stats);
STEPFUSE_API stepfuse_status stepfuse_monitor_rule(stepfuse_monitor* monitor, const char* name,
                                                   stepfuse_condition holds, int32_t in_a_row,
                                                   stepfuse_finding finding, void* user);
// Looks at the steps finished since the last call; or at one of them.
STEPFUSE_API stepfuse_status stepfuse_monitor_feed(stepfuse_monitor* monitor,
                                                   const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_monitor_feed_stats(stepfuse_monitor* monitor,
                                                         const stepfuse_stats* stats);
STEPFUSE_API uint64_t stepfuse_monitor_lost(const stepfuse_monitor* monitor);

// --- states and checkpoints

// A state's values as bits, one word each, whatever its dtype; wait for the device. *count: how
// many there are; more than `capacity` is an error, unless that is 0, which only asks.
STEPFUSE_API stepfuse_status stepfuse_step_read_state(const stepfuse_step* step, const char* name,
                                                      uint64_t* values, size_t capacity,
                                                      size_t* count, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_write_state(stepfuse_step* step, const char* name,
                                                       const uint64_t* values, size_t count,
                                                       stepfuse_stream stream);
// The same memory on the device, valid until stepfuse_step_append.
STEPFUSE_API stepfuse_status stepfuse_step_device_state(const stepfuse_step* step, const char* name,
                                                        void** address);

STEPFUSE_API stepfuse_status stepfuse_save_checkpoint(const char* path, const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint(const char* path, stepfuse_step* step);

// What of step and file need not agree, by the names of states and buffers, as in "ema".
typedef struct stepfuse_load_options {
  size_t size;
  const char* const* optional;  // the file may lack these: they keep what init_state gave them
  size_t optional_count;
  const char* const* ignored;  // the file may hold these though the step does not have them
  size_t ignored_count;
} stepfuse_load_options;
#define STEPFUSE_LOAD_OPTIONS {sizeof(stepfuse_load_options), NULL, 0, NULL, 0}
// `options` may be NULL.
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint_with(const char* path, stepfuse_step* step,
                                                           const stepfuse_load_options* options);

#ifdef __cplusplus
}
#endif

#include <stepfuse/kernels.h>
#endif
