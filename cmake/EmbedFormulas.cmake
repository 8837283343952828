# Writes OUTPUT, a C++ file that holds the built-in optimizers' FORMULAS as strings.
# Run as a script: cmake -DFORMULAS=… -DOUTPUT=… -P EmbedFormulas.cmake
set(entries "")
foreach(file IN LISTS FORMULAS)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME_WE)
  string(APPEND entries "    {\"${name}\", R\"text(${text})text\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from ir/optimizers/*.opt.
#include \"ir/formula/built_in.hpp\"
namespace stepfuse::formula {
std::span<const Embedded> embedded_formulas() {
  static constexpr Embedded kAll[] = {
${entries}  };
  return kAll;
}
}  // namespace stepfuse::formula
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
