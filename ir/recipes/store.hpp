// Option --store: BUFFER=FORM, as text and as what RecipeOptions say. Knows ir only.
#pragma once

#include <string_view>

#include <stepfuse/recipe_options.hpp>

namespace stepfuse::recipes {

// Sets what the entries say, separated by ',' or '|':
//   exp_avg=fp8  exp_avg@4096=fp8  moments=bf16   a moment, for tensors of at least that many elements, or all moments
//   weight=bf16  weight=bf16:stochastic           weights in that type alone; rounds nearest, stochastic, kahan
//   weight=bf16+ecc24                             weights with their missing bits: f32, remainder or ecc24
//   weight=f8e4m3:mx                              copies of f32 masters with a scale, in a format of copies
//   weight=mxfp8                                  the same in that format's first type
// Throws Error{usage} that names the entry.
void set_store(RecipeOptions& options, std::string_view text);

}  // namespace stepfuse::recipes
