# Writes OUTPUT, a C++ file that holds the built-in optimizers' FORMULAS and the storage FORMATS, and those of MASTERS
# and COPIES, as strings. Run as a script:
#   cmake -DFORMULAS=… -DFORMATS=… -DMASTERS=… -DCOPIES=… -DOUTPUT=… -P EmbedFormulas.cmake
set(functions "")
foreach(kind formulas formats masters copies)
  string(TOUPPER ${kind} list)
  set(entries "")
  foreach(file IN LISTS ${list})
    file(READ ${file} text)
    get_filename_component(name ${file} NAME_WE)
    string(APPEND entries "    {\"${name}\", R\"text(${text})text\"},\n")
  endforeach()
  string(APPEND functions "std::span<const Embedded> embedded_${kind}() {
  static constexpr Embedded kAll[] = {
${entries}  };
  return kAll;
}
")
endforeach()
file(WRITE ${OUTPUT}.new "// Generated from ir/optimizers/*.opt and ir/formats/*.fmt.
#include \"ir/formula/built_in.hpp\"
namespace stepfuse::formula {
${functions}}  // namespace stepfuse::formula
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
