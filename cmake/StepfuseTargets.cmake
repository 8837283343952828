# Flags and target helpers shared by every folder.

# The numerics contract forbids contraction and fast math in our own C++ too: g++ contracts a*b+c
# by default wherever FMA is baseline.
function(stepfuse_compile_options target)
  if(STEPFUSE_UNITY)
    include(StepfuseUnity)
    stepfuse_unity(${target})
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic
                         $<$<BOOL:${STEPFUSE_WERROR}>:-Werror>
                         # Designated initializers leave the defaulted rest out on purpose.
                         -Wno-missing-field-initializers
                         # g++ 12 sees overlaps in std::string that cannot be (GCC bug 105651).
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                         # libstdc++ 12 uses in std::stable_sort what it deprecates.
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
                         -ffp-contract=off -fno-fast-math)
  if(STEPFUSE_SANITIZE)
    # -O1 and line numbers only: half the compile time, and reports stay readable.
    target_compile_options(${target} PRIVATE -fsanitize=${STEPFUSE_SANITIZE}
                           -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Both are false in instrumented code: of <regex> among others, and after virtual functions that do not return.
      target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-return-type)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # Compiled kernels, and functions that a library gives by name, have no type that a call could be checked against.
      target_compile_options(${target} PRIVATE -fno-sanitize=function)
      # g++ defines these; the code asks for them where a sanitizer has a process's memory or threads.
      foreach(kind address thread)
        if(STEPFUSE_SANITIZE MATCHES ${kind})
          string(TOUPPER ${kind} upper)
          target_compile_definitions(${target} PRIVATE __SANITIZE_${upper}__=1)
        endif()
      endforeach()
    endif()
    if(STEPFUSE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # Fences are not modelled; what they order here is atomic anyway.
      target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${STEPFUSE_SANITIZE})
  endif()
endfunction()

# Headers that most sources read are parsed once and stored: those of the standard library and fmt, and those
# named here. A target with the same options and headers takes them from another: FROM TARGET.
function(stepfuse_precompile target)
  if(NOT STEPFUSE_PCH)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 precompile "" FROM "")
  if(precompile_FROM)
    target_precompile_headers(${target} REUSE_FROM ${precompile_FROM})
  else()
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <bit> <cmath> <cstdint> <functional> <map>
                              <memory> <optional> <set> <span> <stdexcept> <string> <string_view> <utility>
                              <variant> <vector> <fmt/format.h> <fmt/ranges.h>
                              ${precompile_UNPARSED_ARGUMENTS})
  endif()
  # g++ 12 sees overflows in std::string that cannot be (GCC bug 105651), and forgets that a precompiled header
  # is the system's. A build without this option keeps both warnings.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds
                         -Wno-stringop-overread>)
endfunction()

# A layer of the library, from every .cpp of the current folder (a new file is part of it by being
# there). Its public headers are in include/stepfuse/; everything else is internal and hidden.
function(stepfuse_library target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(${target} STATIC ${sources})
  # stepfuse_runtime is stepfuse::runtime in this tree; others link stepfuse::stepfuse.
  string(REPLACE stepfuse_ "" short_name ${target})
  add_library(stepfuse::${short_name} ALIAS ${target})
  stepfuse_compile_options(${target})
  if(TARGET stepfuse_ir AND NOT target STREQUAL stepfuse_ir)
    stepfuse_precompile(${target} FROM stepfuse_ir)
  else()
    stepfuse_precompile(${target})
  endif()
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include)
    target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/include)
  endif()
endfunction()

# A program in C99, and nothing but that, on the C API.
function(stepfuse_c_executable target)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -ffp-contract=off)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE stepfuse_shared m)
  if(STEPFUSE_SANITIZE)
    # A C program that clang links lacks the half of the undefined behaviour sanitizer that C++ needs.
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endfunction()

# An executable from every .cpp of the given folder.
function(stepfuse_executable target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  add_executable(${target} ${sources})
  stepfuse_compile_options(${target})
endfunction()

# Sources that read the command line are not optimised: CLI11's templates take 6 seconds to compile, optimised 15.
function(stepfuse_reads_command_line)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O0>)
endfunction()
