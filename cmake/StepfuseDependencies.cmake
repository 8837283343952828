# The libraries that stepfuse is built with. They are found on the system. With STEPFUSE_FETCH, CMake fetches those that
# the system lacks, at pinned commits; `pip install .` sets it.
option(STEPFUSE_FETCH "Fetch fmt, oneTBB, xxHash, nlohmann-json and CLI11 if the system lacks them" OFF)

find_path(STEPFUSE_XXHASH xxhash.h)
if(STEPFUSE_XXHASH)
  include_directories(SYSTEM ${STEPFUSE_XXHASH})
elseif(NOT STEPFUSE_FETCH)
  message(FATAL_ERROR "xxhash.h was not found: install libxxhash-dev, or configure with -DSTEPFUSE_FETCH=ON")
endif()

if(NOT STEPFUSE_FETCH)
  find_package(fmt REQUIRED)
  find_package(TBB REQUIRED)
  return()
endif()

include(FetchContent)
set(CMAKE_POLICY_VERSION_MINIMUM 3.5)  # what CMake 4 asks of projects that name an older version
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # the options set below are heeded
set(FETCHCONTENT_QUIET OFF)            # a download prints its progress

# stepfuse_fetch(NAME URL COMMIT): NAME_SOURCE_DIR then has the sources. Later calls of find_package(NAME) find these.
macro(stepfuse_fetch name url commit)
  message(STATUS "${name} is not on this system: fetching ${url}")
  FetchContent_Declare(${name} GIT_REPOSITORY ${url} GIT_TAG ${commit} GIT_PROGRESS ON OVERRIDE_FIND_PACKAGE ${ARGN})
  FetchContent_MakeAvailable(${name})
endmacro()

# stepfuse_fetch_headers(NAME TARGET FOLDER URL COMMIT): the same for a library that is only headers, in FOLDER.
macro(stepfuse_fetch_headers name target folder)
  stepfuse_fetch(${name} ${ARGN} SOURCE_SUBDIR none)
  string(TOLOWER ${name} lower)
  add_library(stepfuse_${lower} INTERFACE)
  target_include_directories(stepfuse_${lower} SYSTEM INTERFACE ${${lower}_SOURCE_DIR}/${folder})
  add_library(${target} ALIAS stepfuse_${lower})
endmacro()

# fmt and oneTBB become a part of libstepfuse, where nothing else of the process meets them.
set(shared_before ${BUILD_SHARED_LIBS})
set(BUILD_SHARED_LIBS OFF)
find_package(fmt QUIET)
if(NOT fmt_FOUND)
  stepfuse_fetch(fmt https://github.com/fmtlib/fmt.git e69e5f977d458f2650bb346dadf2ad30c5320281)  # 10.2.1
endif()
find_package(TBB QUIET)
if(NOT TBB_FOUND)
  set(TBB_TEST OFF)
  set(TBB_STRICT OFF)
  set(TBB_DISABLE_HWLOC_AUTOMATIC_SEARCH ON)
  stepfuse_fetch(TBB https://github.com/uxlfoundation/oneTBB.git 1c4c93fc5398c4a1acb3492c02db4699f3048dea)  # 2021.13.0
endif()
set(BUILD_SHARED_LIBS ${shared_before})

find_package(nlohmann_json 3 QUIET)
if(NOT nlohmann_json_FOUND)
  stepfuse_fetch_headers(nlohmann_json nlohmann_json::nlohmann_json single_include https://github.com/nlohmann/json.git
                         bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d)  # 3.11.2
endif()

if(STEPFUSE_CLI)
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    stepfuse_fetch_headers(CLI11 CLI11::CLI11 include https://github.com/CLIUtils/CLI11.git
                           70f8072f9dd2292fd0b9f9e5f58e279f60483ed3)  # 2.1.2
  endif()
endif()

if(NOT STEPFUSE_XXHASH)
  stepfuse_fetch(xxHash https://github.com/Cyan4973/xxHash.git bbb27a5efb85b92a0486cf361a8635715a53f6ba SOURCE_SUBDIR none)  # 0.8.2
  include_directories(SYSTEM ${xxhash_SOURCE_DIR})
endif()
