# Writes OUTPUT, a C++ file that holds compiler/abi.hpp and the preludes as strings.
# Run as a script: cmake -DSOURCE=… -DOUTPUT=… -P EmbedText.cmake
file(READ ${SOURCE}/abi.hpp abi)
# The structs are plain C++; only #pragma once and the includes of the host go.
string(REGEX REPLACE "#[^\n]*\n" "" abi "${abi}")
file(READ ${SOURCE}/cuda/prelude.cuh prelude)
file(READ ${SOURCE}/cuda/prelude_reduce.cuh prelude_reduce)
file(READ ${SOURCE}/c/prelude.h c_prelude)
file(WRITE ${OUTPUT}.new "// Generated from abi.hpp, prelude.cuh, prelude_reduce.cuh and c/prelude.h.
#include \"compiler/embedded.hpp\"
namespace stepfuse {
std::string_view embedded_abi() { return R\"text(${abi})text\"; }
std::string_view embedded_prelude() { return R\"text(${prelude}
${prelude_reduce})text\"; }
std::string_view embedded_c_prelude() { return R\"text(${c_prelude})text\"; }
}  // namespace stepfuse
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
