# Writes OUTPUT, a C++ file that holds compiler/abi.hpp, the preludes and the expansions as strings.
# Run as a script: cmake -DSOURCE=… -DOUTPUT=… -P EmbedText.cmake
file(READ ${SOURCE}/abi.hpp abi)
# The structs are plain C++; only #pragma once and the includes of the host go.
string(REGEX REPLACE "#[^\n]*\n" "" abi "${abi}")
file(READ ${SOURCE}/cuda/prelude.cuh prelude)
file(READ ${SOURCE}/cuda/prelude_tiles.cuh prelude_tiles)
file(READ ${SOURCE}/cuda/prelude_reduce.cuh prelude_reduce)
file(READ ${SOURCE}/cuda/prelude_lines.cuh prelude_lines)
file(READ ${SOURCE}/cuda/prelude_arrange.cuh prelude_arrange)
file(READ ${SOURCE}/c/prelude.h c_prelude)
file(READ ${SOURCE}/c/prelude_arrange.h c_prelude_arrange)
file(GLOB files ${SOURCE}/plan/expansions/*.sf)
foreach(file IN LISTS files)
  file(READ ${file} lines)
  string(APPEND expansions "${lines}\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from abi.hpp, cuda/prelude*.cuh, c/prelude.h and plan/expansions/*.sf.
#include \"compiler/embedded.hpp\"
namespace stepfuse {
std::string_view embedded_abi() { return R\"text(${abi})text\"; }
std::string_view embedded_prelude() { return R\"text(${prelude}
${prelude_tiles}
${prelude_reduce}
${prelude_lines})text\"; }
std::string_view embedded_prelude_arrange() { return R\"text(${prelude_arrange})text\"; }
std::string_view embedded_c_prelude() { return R\"text(${c_prelude})text\"; }
std::string_view embedded_c_prelude_arrange() { return R\"text(${c_prelude_arrange})text\"; }
std::string_view embedded_expansions() { return R\"text(${expansions})text\"; }
}  // namespace stepfuse
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
