// Files of this folder as strings, put into the library by the build. Knows nothing.
#pragma once

#include <string_view>

namespace stepfuse {

std::string_view embedded_abi();      // abi.hpp without its # lines
std::string_view embedded_prelude();  // prelude.cuh and prelude_reduce.cuh

}  // namespace stepfuse
