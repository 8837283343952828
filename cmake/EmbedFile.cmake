# Writes OUTPUT, a C++ file with a function FUNCTION that returns the text of INPUT.
# Run as a script: cmake -DINPUT=… -DOUTPUT=… -DFUNCTION=stepfuse::cli::name -P EmbedFile.cmake
file(READ ${INPUT} text)
string(REGEX MATCH "^(.*)::([a-z_]+)$" whole ${FUNCTION})
set(space ${CMAKE_MATCH_1})
set(name ${CMAKE_MATCH_2})
get_filename_component(file ${INPUT} NAME)
file(WRITE ${OUTPUT}.new "// Generated from ${file}.
#include <string_view>
namespace ${space} {
std::string_view ${name}();
std::string_view ${name}() { return R\"text(${text})text\"; }
}  // namespace ${space}
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
