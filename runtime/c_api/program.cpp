// The C API: dtypes, programs and recipes. Knows the handles.
#include <fmt/format.h>

#include <stepfuse/format.hpp>

#include "ir/formula/resolve.hpp"
#include "runtime/c_api/handles.hpp"
#include "runtime/step/args.hpp"
#include "runtime/step/numbers.hpp"

using namespace stepfuse;
using namespace stepfuse::c_api;

namespace {

// The dtype numbers of stepfuse.h are the positions in the table of dtypes.
#define X(enumerator, text, code, ...) \
  static_assert(STEPFUSE_##code == static_cast<int>(DType::enumerator));
#include <stepfuse/dtypes.def>
#undef X

bool is_dtype(stepfuse_dtype dtype) { return dtype >= 0 && dtype < kDTypeCount; }

template <class T>
size_t count_of(const stepfuse_program* program, std::vector<T> Program::* list) {
  return program != nullptr ? (program->value.*list).size() : 0;
}
template <class T>
const T& declaration(const stepfuse_program* program, std::vector<T> Program::* list, size_t index,
                     const char* what) {
  return declared(need(program, "the program").value.*list, index, what, "the program declares");
}

const std::vector<RecipeInfo>& all_recipes() {
  static const std::vector<RecipeInfo> all = list_recipes();
  return all;
}
// Copies a table for C and ends it with a null row. Its names and help texts are literals, so they end in
// a zero.
template <class Table, class Row>
const char* word(const Table& table, size_t index, std::string_view Row::* column) {
  return index < table.size() ? (table[index].*column).data() : nullptr;
}

RecipeOptions options_of(const char* const* options, size_t count) {
  RecipeOptions out;
  for (size_t i = 0; i < count; ++i) {
    std::string_view option = text_of((&need(options, "the array of options"))[i], "an option");
    size_t equals = option.find('=');
    bool bare = equals == std::string_view::npos;
    set_option(out, option.substr(0, equals), bare ? "" : option.substr(equals + 1));
  }
  return out;
}

}  // namespace

// The cases are written out, so that the header's numbers do not depend on the order of kGranularities.
stepfuse_granularity c_api::granularity_of(Granularity at) {
  if (at == per::step) return STEPFUSE_PER_STEP;
  if (at == per::group) return STEPFUSE_PER_GROUP;
  if (at == per::tensor) return STEPFUSE_PER_TENSOR;
  if (at == per::row) return STEPFUSE_PER_ROW;
  return at == per::column ? STEPFUSE_PER_COLUMN : STEPFUSE_PER_ELEMENT;
}

DType c_api::dtype_of(stepfuse_dtype dtype) {
  if (is_dtype(dtype)) return static_cast<DType>(dtype);
  throw Error(ErrorKind::usage, fmt::format("{} is not a stepfuse_dtype", dtype));
}

const char* stepfuse_dtype_name(stepfuse_dtype dtype) {
  return is_dtype(dtype) ? name(static_cast<DType>(dtype)).data() : nullptr;
}

size_t stepfuse_dtype_size(stepfuse_dtype dtype) {
  return is_dtype(dtype) ? size_of(static_cast<DType>(dtype)) : 0;
}

stepfuse_status stepfuse_parse(const char* text, const char* file, stepfuse_program** program) {
  return guard([&] {
    auto& out = result(program);
    out =
        new stepfuse_program{parse(text_of(text, "the text of the step"), text_or(file, "<text>"))};
  });
}

stepfuse_status stepfuse_recipe(const char* name, const char* const* options, size_t option_count,
                                stepfuse_program** program) {
  return guard([&] {
    auto& out = result(program);
    out = new stepfuse_program{
        make_recipe(text_of(name, "the recipe's name"), options_of(options, option_count))};
  });
}

stepfuse_status stepfuse_conversion(const char* from, const char* to, stepfuse_program** program) {
  return guard([&] {
    auto& out = result(program);
    out = new stepfuse_program{conversion(text_of(from, "the form to convert from"),
                                          text_of(to, "the form to convert to"))};
  });
}

stepfuse_status stepfuse_formula(const char* text, const char* file, const char* const* options,
                                 size_t option_count, stepfuse_program** program) {
  return guard([&] {
    auto& out = result(program);
    Optimizer optimizer =
        parse_optimizer(text_of(text, "the optimizer's formula"), text_or(file, "<text>"));
    out = new stepfuse_program{make_recipe(optimizer, options_of(options, option_count))};
  });
}

stepfuse_status stepfuse_formula_options(const char* text, const char* file, char** names) {
  return guard([&] {
    auto& out = result(names);
    Optimizer optimizer =
        parse_optimizer(text_of(text, "the optimizer's formula"), text_or(file, "<text>"));
    std::string lines;
    for (const formula::Statement* s : formula::options_of(optimizer.formula())) {
      lines += s->name + "\n";
    }
    out = copy_text(lines);
  });
}

stepfuse_status stepfuse_formula_text(const char* recipe, char** text) {
  return guard([&] {
    auto& out = result(text);
    std::string_view name = text_of(recipe, "the recipe's name");
    auto optimizer = built_in_optimizer(name);
    if (!optimizer) {
      throw Error(ErrorKind::usage, fmt::format("there is no built-in optimizer '{}'", name));
    }
    out = copy_text(std::string(optimizer->text()));
  });
}

void stepfuse_program_destroy(stepfuse_program* program) { delete program; }

stepfuse_status stepfuse_program_print(const stepfuse_program* program, char** text) {
  return guard([&] {
    auto& out = result(text);
    out = copy_text(print(need(program, "the program").value));
  });
}

const char* stepfuse_program_name(const stepfuse_program* program) {
  return program != nullptr ? program->value.name.c_str() : nullptr;
}

size_t stepfuse_program_buffer_count(const stepfuse_program* program) {
  return count_of(program, &Program::buffers);
}
size_t stepfuse_program_state_count(const stepfuse_program* program) {
  return count_of(program, &Program::states);
}
size_t stepfuse_program_arg_count(const stepfuse_program* program) {
  return count_of(program, &Program::args);
}

stepfuse_status stepfuse_program_buffer(const stepfuse_program* program, size_t index,
                                        stepfuse_buffer* buffer) {
  return guard([&] {
    const Buffer& b = declaration(program, &Program::buffers, index, "buffer");
    write_struct(
        buffer,
        {.struct_size = 0,
         .name = b.name.c_str(),
         .dtypes = b.dtypes.mask(),
         .is_written = b.access != Access::in,
         .initialised = b.init != Buffer::Init::none,
         .init_from = b.init == Buffer::Init::copy ? static_cast<int32_t>(b.init_from) : -1,
         .block = b.at.columns,
         .rows = b.at.rows,
         .from = b.from,
         .below = b.below,
         .arranges = b.arranges,
         .is_transposed = b.order.transposed,
         .is_swizzled = b.order.swizzled},
        "the stepfuse_buffer");
  });
}

stepfuse_status stepfuse_program_state(const stepfuse_program* program, size_t index,
                                       stepfuse_state* state) {
  return guard([&] {
    const State& s = declaration(program, &Program::states, index, "state");
    write_struct(state,
                 {.struct_size = 0,
                  .name = s.name.c_str(),
                  .dtype = static_cast<stepfuse_dtype>(s.type.dtype),
                  .granularity = granularity_of(s.type.at),
                  .is_shared = s.shared,
                  .is_report = s.report,
                  .initial = s.initial.raw},
                 "the stepfuse_state");
  });
}

stepfuse_status stepfuse_program_arg(const stepfuse_program* program, size_t index,
                                     stepfuse_arg* arg) {
  return guard([&] {
    const Arg& a = declaration(program, &Program::args, index, "argument");
    write_struct(arg,
                 {.struct_size = 0,
                  .name = a.name.c_str(),
                  .dtype = static_cast<stepfuse_dtype>(a.type.dtype),
                  .granularity = granularity_of(a.type.at),
                  .has_default = a.fallback.has_value(),
                  .default_value = a.fallback ? to_double(*a.fallback, a.type.dtype) : 0.0},
                 "the stepfuse_arg");
  });
}

stepfuse_status stepfuse_program_check_arg(const stepfuse_program* program, size_t index,
                                           double value) {
  return guard([&] {
    const Arg& a = declaration(program, &Program::args, index, "argument");
    word_of(value, bounds_of(program->value, a), a.type.dtype, a.name, program->value.name);
  });
}

const char* stepfuse_recipe_name(size_t index) {
  return word(all_recipes(), index, &RecipeInfo::name);
}
const char* stepfuse_recipe_help(size_t index) {
  return word(all_recipes(), index, &RecipeInfo::help);
}
const char* stepfuse_recipe_option_name(size_t index) {
  return word(recipe_option_table(), index, &RecipeOption::name);
}
const char* stepfuse_recipe_option_help(size_t index) {
  return word(recipe_option_table(), index, &RecipeOption::help);
}
