// The declarations of the C API as they first were, in version 0.1.0. This file never changes: first_header_test.c
// shows that programs compiled with it run with every later library. Knows only C.
#ifndef STEPFUSE_TESTS_FIRST_HEADER_H
#define STEPFUSE_TESTS_FIRST_HEADER_H
#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#define STEPFUSE_API __attribute__((visibility("default")))
#else
#define STEPFUSE_API
#endif
typedef int32_t stepfuse_status;
enum {
  STEPFUSE_OK = 0,
  STEPFUSE_ERROR_PARSE = 1,
  STEPFUSE_ERROR_VERIFY = 2,
  STEPFUSE_ERROR_BIND = 3,
  STEPFUSE_ERROR_COMPILE = 4,
  STEPFUSE_ERROR_DEVICE = 5,
  STEPFUSE_ERROR_USAGE = 6,
  STEPFUSE_ERROR_OUT_OF_MEMORY = 7,
  STEPFUSE_ERROR_INTERNAL = 8
};
STEPFUSE_API const char* stepfuse_error_message(void);
STEPFUSE_API void stepfuse_error_place(int32_t* line, int32_t* column);
STEPFUSE_API const char* stepfuse_version(void);
STEPFUSE_API void stepfuse_free(char* text);
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
STEPFUSE_API const char* stepfuse_dtype_name(stepfuse_dtype dtype);
STEPFUSE_API size_t stepfuse_dtype_size(stepfuse_dtype dtype);
typedef int32_t stepfuse_domain;
enum {
  STEPFUSE_PER_STEP = 0,
  STEPFUSE_PER_GROUP = 1,
  STEPFUSE_PER_TENSOR = 2,
  STEPFUSE_PER_ROW = 3,
  STEPFUSE_PER_COLUMN = 4,
  STEPFUSE_PER_ELEMENT = 5
};
typedef void* stepfuse_stream;
typedef struct stepfuse_program stepfuse_program;
STEPFUSE_API stepfuse_status stepfuse_parse(const char* text, const char* file,
                                            stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_recipe(const char* name, const char* const* options,
                                             size_t option_count, stepfuse_program** program);
STEPFUSE_API void stepfuse_program_destroy(stepfuse_program* program);
STEPFUSE_API stepfuse_status stepfuse_program_print(const stepfuse_program* program, char** text);
STEPFUSE_API const char* stepfuse_program_name(const stepfuse_program* program);
typedef struct stepfuse_buffer {
  size_t size;
  const char* name;
  uint32_t dtypes;
  int32_t is_written;
  int32_t initialised;
  int32_t init_from;
  int32_t block, rows;
  uint64_t from, below;
} stepfuse_buffer;
typedef struct stepfuse_state {
  size_t size;
  const char* name;
  stepfuse_dtype dtype;
  stepfuse_domain domain;
  int32_t is_shared;
  int32_t is_report;
  uint64_t initial;
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
STEPFUSE_API stepfuse_status stepfuse_program_check_arg(const stepfuse_program* program,
                                                        size_t index, double value);
STEPFUSE_API const char* stepfuse_recipe_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_help(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_name(size_t index);
STEPFUSE_API const char* stepfuse_recipe_option_help(size_t index);
typedef struct stepfuse_layout stepfuse_layout;
typedef struct stepfuse_storage {
  const char* buffer;
  stepfuse_dtype dtype;
} stepfuse_storage;
typedef struct stepfuse_tensor {
  size_t size;
  const char* name;
  uint64_t elements;
  int32_t group;
  uint64_t offset;
  int32_t uncounted;
  int32_t frozen;
  const stepfuse_storage* storage;
  size_t storage_count;
  uint64_t full_size;
  const uint32_t* id;
  uint64_t columns;
} stepfuse_tensor;
#define STEPFUSE_TENSOR {sizeof(stepfuse_tensor), NULL, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 0}
STEPFUSE_API stepfuse_status stepfuse_layout_create(stepfuse_layout** layout);
STEPFUSE_API void stepfuse_layout_destroy(stepfuse_layout* layout);
STEPFUSE_API stepfuse_status stepfuse_layout_add(stepfuse_layout* layout,
                                                 const stepfuse_tensor* tensor);
STEPFUSE_API size_t stepfuse_layout_size(const stepfuse_layout* layout);
STEPFUSE_API size_t stepfuse_layout_group_count(const stepfuse_layout* layout);
STEPFUSE_API uint64_t stepfuse_layout_element_count(const stepfuse_layout* layout);
STEPFUSE_API stepfuse_status stepfuse_layout_tensor(const stepfuse_layout* layout, size_t index,
                                                    stepfuse_tensor* tensor);
enum { STEPFUSE_CPU = 0, STEPFUSE_INTERPRETER = 1, STEPFUSE_CUDA = 2 };
typedef struct stepfuse_device {
  size_t size;
  int32_t kind;
  int32_t threads;
  int32_t ordinal;
  const char* level;
  const char* options;
} stepfuse_device;
#define STEPFUSE_DEVICE {sizeof(stepfuse_device), STEPFUSE_CPU, 0, 0, NULL, NULL}
typedef struct stepfuse_scaler stepfuse_scaler;
typedef struct stepfuse_scaler_options {
  size_t size;
  double init_scale;
  double growth_factor;
  double backoff_factor;
  int32_t growth_interval;
} stepfuse_scaler_options;
#define STEPFUSE_SCALER_OPTIONS {sizeof(stepfuse_scaler_options), 0.0, 0.0, 0.0, 0}
STEPFUSE_API stepfuse_status stepfuse_scaler_create(const stepfuse_scaler_options* options,
                                                    stepfuse_scaler** scaler);
STEPFUSE_API void stepfuse_scaler_destroy(stepfuse_scaler* scaler);
STEPFUSE_API stepfuse_status stepfuse_scaler_get_options(const stepfuse_scaler* scaler,
                                                         stepfuse_scaler_options* options);
STEPFUSE_API stepfuse_status stepfuse_scaler_device_scale(const stepfuse_scaler* scaler,
                                                          const float** scale);
STEPFUSE_API stepfuse_status stepfuse_scaler_read(const stepfuse_scaler* scaler, const char* state,
                                                  double* value);
STEPFUSE_API stepfuse_status stepfuse_scaler_write(stepfuse_scaler* scaler, const char* state,
                                                   double value);
STEPFUSE_API stepfuse_status stepfuse_scaler_update(stepfuse_scaler* scaler, double new_scale);
typedef struct stepfuse_step stepfuse_step;
typedef struct stepfuse_args stepfuse_args;
enum { STEPFUSE_FUSED = 0, STEPFUSE_SPLIT = 1, STEPFUSE_UNFUSED = 2 };
typedef struct stepfuse_step_options {
  size_t size;
  int32_t form;
  int32_t observe;
  int32_t stats_ring;
  stepfuse_scaler* scaler;
  const char* gradient;
  void* (*allocate)(void* user, size_t bytes, stepfuse_stream stream);
  void (*release)(void* user, void* memory, size_t bytes, stepfuse_stream stream);
  void* user;
  int32_t unchecked_args;
} stepfuse_step_options;
#define STEPFUSE_STEP_OPTIONS \
  {sizeof(stepfuse_step_options), STEPFUSE_FUSED, 0, 0, NULL, NULL, NULL, NULL, NULL, 0}
STEPFUSE_API stepfuse_status stepfuse_step_create(const stepfuse_program* program,
                                                  const stepfuse_layout* layout,
                                                  const stepfuse_device* device,
                                                  const stepfuse_step_options* options,
                                                  stepfuse_step** step);
STEPFUSE_API void stepfuse_step_destroy(stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_step_prepare(stepfuse_step* step);
typedef struct stepfuse_compile_report {
  size_t size;
  int32_t from_memory_cache;
  int32_t from_disk_cache;
  int32_t from_kernel_folder;
  double compile_ms;
  double prepare_ms;
  double passes_ms, parse_ms, optimize_ms, codegen_ms, load_ms;
  const char* key;
} stepfuse_compile_report;
#define STEPFUSE_COMPILE_REPORT \
  {sizeof(stepfuse_compile_report), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, NULL}
STEPFUSE_API stepfuse_status stepfuse_step_compile_report(const stepfuse_step* step,
                                                          stepfuse_compile_report* report);
STEPFUSE_API stepfuse_status stepfuse_step_bind(stepfuse_step* step, const char* buffer,
                                                void* const* pointers, size_t count);
STEPFUSE_API stepfuse_status stepfuse_step_init_state(stepfuse_step* step, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_init_tensors(stepfuse_step* step, size_t first,
                                                        stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_adopt_state(stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_step_append(stepfuse_step* step,
                                                  const stepfuse_tensor* tensor);
STEPFUSE_API size_t stepfuse_step_workspace_bytes(const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_workspace_bytes(const stepfuse_program* program,
                                                      const stepfuse_layout* layout,
                                                      const stepfuse_step_options* options,
                                                      int32_t device_kind, size_t* bytes);
STEPFUSE_API stepfuse_status stepfuse_step_program(const stepfuse_step* step,
                                                   stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_step_layout(const stepfuse_step* step,
                                                  stepfuse_layout** layout);
STEPFUSE_API stepfuse_status stepfuse_step_device(const stepfuse_step* step,
                                                  stepfuse_device* device);
STEPFUSE_API stepfuse_status stepfuse_step_arg(const stepfuse_step* step, const char* name,
                                               int32_t* arg);
STEPFUSE_API stepfuse_status stepfuse_step_make_args(const stepfuse_step* step,
                                                     stepfuse_args** args);
STEPFUSE_API void stepfuse_args_destroy(stepfuse_args* args);
STEPFUSE_API stepfuse_status stepfuse_args_copy(const stepfuse_args* args, stepfuse_args** copy);
STEPFUSE_API stepfuse_status stepfuse_args_set(stepfuse_args* args, int32_t arg, double value);
STEPFUSE_API stepfuse_status stepfuse_args_set_group(stepfuse_args* args, int32_t arg,
                                                     int32_t group, double value);
STEPFUSE_API stepfuse_status stepfuse_args_get(const stepfuse_args* args, int32_t arg,
                                               int32_t group, double* value);
STEPFUSE_API stepfuse_status stepfuse_step_set_args(stepfuse_step* step, const stepfuse_args* args,
                                                    stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_device_arg(const stepfuse_step* step, int32_t arg,
                                                      int32_t group, void** address);
STEPFUSE_API size_t stepfuse_step_args_bytes(const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_step_arg_offset(const stepfuse_step* step, int32_t arg,
                                                      int32_t group, size_t* offset);
STEPFUSE_API stepfuse_status stepfuse_step_write_args(const stepfuse_step* step,
                                                      const stepfuse_args* args, uint64_t* words,
                                                      size_t count);
STEPFUSE_API stepfuse_status stepfuse_step_run(stepfuse_step* step, void* const* gradients,
                                               size_t count, const stepfuse_args* args,
                                               stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_observe(stepfuse_step* step, size_t first,
                                                   void* const* gradients, size_t count,
                                                   const stepfuse_args* args,
                                                   stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_reduce(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const stepfuse_args* args,
                                                  stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_run_at(stepfuse_step* step, void* const* gradients,
                                                  size_t count, const void* args,
                                                  stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_observe_at(stepfuse_step* step, size_t first,
                                                      void* const* gradients, size_t count,
                                                      const void* args, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_reduce_at(stepfuse_step* step, void* const* gradients,
                                                     size_t count, const void* args,
                                                     stepfuse_stream stream);
typedef struct stepfuse_partial {
  size_t size;
  char name[64];
  char op[32];
  stepfuse_dtype dtype;
  size_t count;
  size_t offset;
  const void* pieces;
  size_t piece_count;
  const char* full_name;
  int pipeline;
} stepfuse_partial;
#define STEPFUSE_PARTIAL {sizeof(stepfuse_partial), "", "", 0, 0, 0, NULL, 0, NULL, 0}
STEPFUSE_API stepfuse_status stepfuse_step_partials(const stepfuse_step* step, void** block,
                                                    size_t* bytes, size_t* count);
STEPFUSE_API stepfuse_status stepfuse_step_partial(const stepfuse_step* step, size_t index,
                                                   stepfuse_partial* partial);
STEPFUSE_API stepfuse_status stepfuse_step_partial_at(const stepfuse_step* step, const char* name,
                                                      stepfuse_partial* partial);
typedef struct stepfuse_stats stepfuse_stats;
STEPFUSE_API stepfuse_status stepfuse_stats_create(stepfuse_stats** stats);
STEPFUSE_API void stepfuse_stats_destroy(stepfuse_stats* stats);
STEPFUSE_API stepfuse_status stepfuse_step_latest(const stepfuse_step* step, stepfuse_stats* stats,
                                                  int32_t* found);
STEPFUSE_API stepfuse_status stepfuse_step_wait(const stepfuse_step* step, stepfuse_stream stream,
                                                stepfuse_stats* stats, int32_t* found);
STEPFUSE_API stepfuse_status stepfuse_step_history(
    const stepfuse_step* step, void (*each)(void* user, const stepfuse_stats* stats), void* user);
STEPFUSE_API uint64_t stepfuse_stats_index(const stepfuse_stats* stats);
STEPFUSE_API stepfuse_status stepfuse_stats_get(const stepfuse_stats* stats, const char* report,
                                                double* value);
STEPFUSE_API size_t stepfuse_stats_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_name(const stepfuse_stats* stats, size_t index);
STEPFUSE_API size_t stepfuse_stats_list_count(const stepfuse_stats* stats);
STEPFUSE_API const char* stepfuse_stats_list_name(const stepfuse_stats* stats, size_t index);
STEPFUSE_API stepfuse_status stepfuse_stats_list(const stepfuse_stats* stats, const char* report,
                                                 const double** values, size_t* count);
STEPFUSE_API stepfuse_status stepfuse_stats_json(const stepfuse_stats* stats, char** line);
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
typedef int32_t (*stepfuse_condition)(void* user, const stepfuse_stats* stats);
STEPFUSE_API stepfuse_status stepfuse_monitor_rule(stepfuse_monitor* monitor, const char* name,
                                                   stepfuse_condition holds, int32_t in_a_row,
                                                   stepfuse_finding finding, void* user);
STEPFUSE_API stepfuse_status stepfuse_monitor_feed(stepfuse_monitor* monitor,
                                                   const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_monitor_feed_stats(stepfuse_monitor* monitor,
                                                         const stepfuse_stats* stats);
STEPFUSE_API uint64_t stepfuse_monitor_lost(const stepfuse_monitor* monitor);
STEPFUSE_API stepfuse_status stepfuse_step_read_state(const stepfuse_step* step, const char* name,
                                                      uint64_t* values, size_t capacity,
                                                      size_t* count, stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_write_state(stepfuse_step* step, const char* name,
                                                       const uint64_t* values, size_t count,
                                                       stepfuse_stream stream);
STEPFUSE_API stepfuse_status stepfuse_step_device_state(const stepfuse_step* step, const char* name,
                                                        void** address);
STEPFUSE_API stepfuse_status stepfuse_save_checkpoint(const char* path, const stepfuse_step* step);
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint(const char* path, stepfuse_step* step);
typedef struct stepfuse_load_options {
  size_t size;
  const char* const* optional;
  size_t optional_count;
  const char* const* ignored;
  size_t ignored_count;
} stepfuse_load_options;
#define STEPFUSE_LOAD_OPTIONS {sizeof(stepfuse_load_options), NULL, 0, NULL, 0}
STEPFUSE_API stepfuse_status stepfuse_load_checkpoint_with(const char* path, stepfuse_step* step,
                                                           const stepfuse_load_options* options);
STEPFUSE_API stepfuse_status stepfuse_conversion(const char* from, const char* to,
                                                 stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_formula(const char* text, const char* file,
                                              const char* const* options, size_t option_count,
                                              stepfuse_program** program);
STEPFUSE_API stepfuse_status stepfuse_formula_options(const char* text, const char* file,
                                                      char** names);
STEPFUSE_API stepfuse_status stepfuse_formula_text(const char* recipe, char** text);
STEPFUSE_API stepfuse_status stepfuse_layout_reserve_groups(stepfuse_layout* layout, int32_t count);
STEPFUSE_API stepfuse_status stepfuse_step_set_group(stepfuse_step* step, size_t tensor,
                                                     int32_t group);
STEPFUSE_API stepfuse_status stepfuse_use_kernels(const char* folder);
typedef struct stepfuse_cache {
  size_t size;
  uint64_t compiled;
  uint64_t hits;
} stepfuse_cache;
#define STEPFUSE_CACHE {sizeof(stepfuse_cache), 0, 0}
STEPFUSE_API stepfuse_status stepfuse_cache_stats(stepfuse_cache* stats);
#endif
