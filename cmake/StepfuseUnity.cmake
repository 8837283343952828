# Unity builds: each unit includes up to 24 sources of a target. Smaller units would compile the headers more often:
# two sources of the command line tool take 14 s together, and eight take 19 s.
#
# Sources use the same names for functions and types in unnamed namespaces. So two sources that declare one name go
# into different units. Names are read from lines that begin a declaration in column 0, as clang-format writes them.

# Sets `out` to the names that `source` declares at namespace scope.
function(stepfuse_declared_names source out)
  file(STRINGS ${source} lines REGEX "^(\\[\\[noreturn\\]\\] )?[A-Za-z].*[A-Za-z0-9_>][])]* *[={(;]")
  string(REPLACE "[[noreturn]] " "" lines "${lines}")
  # CMake takes lines between brackets for one element of a list.
  string(REPLACE "[" " =" lines "${lines}")
  string(REPLACE "]" "" lines "${lines}")
  set(names "")
  foreach(line IN LISTS lines)
    # The name is the last word before the body, the value or the parameters.
    string(REGEX REPLACE "^template <[^(]*> " "" line "${line}")
    string(REGEX REPLACE "( =|{|\\(|;| : ).*" "" line "${line}")
    if(line MATCHES "^(namespace|template|return|extern|static_assert|using namespace (stepfuse|ptx))")
      continue()
    elseif(line MATCHES "^using namespace ")
      set(line "using_namespace")  # of two targets: their functions have the same names
    endif()
    if(line MATCHES "([A-Za-z0-9_]+) *$")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  list(REMOVE_ITEM names TEST_CASE TEST_CASE_TEMPLATE main)
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

# Sources added to `target` later are compiled alone.
function(stepfuse_unity target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "[.]cpp$")
  list(LENGTH sources count)
  if(count LESS 2)
    return()
  endif()
  math(EXPR last "${count} - 1")  # there are never more units than sources
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE file)
    if(NOT EXISTS ${file})
      continue()  # a generated source
    endif()
    stepfuse_declared_names(${file} names)
    foreach(k RANGE ${last})
      set(unit ${k})
      list(LENGTH members_${unit} size)
      set(fits TRUE)
      foreach(name IN LISTS names)
        if(name IN_LIST names_${unit})
          set(fits FALSE)
          break()
        endif()
      endforeach()
      if(fits AND size LESS 24)
        break()
      endif()
    endforeach()
    list(APPEND names_${unit} ${names})
    list(APPEND members_${unit} ${file})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${unit})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
