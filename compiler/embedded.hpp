// Files of this folder as strings, which the build puts into the library. Knows nothing.
#pragma once

#include <string_view>

namespace stepfuse {

std::string_view embedded_abi();      // abi.hpp without its # lines
std::string_view embedded_prelude();  // cuda/prelude.cuh and the parts of it that every kernel has
std::string_view embedded_prelude_arrange();    // cuda/prelude_arrange.cuh
std::string_view embedded_c_prelude();          // c/prelude.h
std::string_view embedded_c_prelude_arrange();  // c/prelude_arrange.h
std::string_view embedded_expansions();         // plan/expansions/*.sf

}  // namespace stepfuse
