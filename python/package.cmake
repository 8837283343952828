# Adds to the package of `pip install .` the parts besides Python files: the library, the command line tool, and an LLVM
# if static archives of it are found. Knows the whole tree; python/CMakeLists.txt includes it for pip only.

# A built or installed stepfuse is taken only if stepfuse_DIR names it. Otherwise a different version elsewhere on the
# machine would end up in the package.
if(DEFINED ENV{stepfuse_DIR} OR DEFINED stepfuse_DIR)
  find_package(stepfuse 0.1 CONFIG REQUIRED)
  find_program(STEPFUSE_TOOL stepfuse HINTS ${stepfuse_DIR}/bin ${stepfuse_DIR}/../../../bin NO_DEFAULT_PATH)
else()
  set(BUILD_SHARED_LIBS ON)
  set(STEPFUSE_CLI ON)
  set(STEPFUSE_FETCH ON CACHE BOOL "Fetch the libraries that the system lacks")
  add_subdirectory(.. stepfuse EXCLUDE_FROM_ALL)
  if(STEPFUSE_LLVM AND NOT STEPFUSE_LLVM_INCLUDE_DIR)
    message(FATAL_ERROR "stepfuse: LLVM's C headers (llvm-c/, version 19 or later) were not found, and CPU kernels need them.\n"
            "Install them:           apt-get install llvm-19-dev    (Debian, Ubuntu)\n"
            "or name their folder:   pip install . --config-settings=cmake.define.STEPFUSE_LLVM_INCLUDE_DIR=/path/to/llvm/include\n"
            "or build without CPU kernels: pip install . --config-settings=cmake.define.STEPFUSE_LLVM=OFF")
  endif()
  add_custom_target(package_tool ALL DEPENDS stepfuse_cli)
  set(STEPFUSE_TOOL $<TARGET_FILE:stepfuse_cli>)
  # Both are copied out of the build folder.
  set_target_properties(stepfuse_cli stepfuse_shared PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
endif()

# One LLVM that nothing else in the process sees. Without the archives, the library opens the system's libLLVM.
set(STEPFUSE_LLVM_FILE "" CACHE FILEPATH "an LLVM to put into the package: what tools/static_llvm.sh made")
option(STEPFUSE_OWN_LLVM "Link an LLVM for the package from static archives, if they are found" ON)
if(NOT STEPFUSE_LLVM_FILE AND STEPFUSE_OWN_LLVM AND NOT CMAKE_CROSSCOMPILING)
  set(static_llvm ${CMAKE_CURRENT_SOURCE_DIR}/../tools/static_llvm.sh)
  execute_process(COMMAND ${static_llvm} --check OUTPUT_VARIABLE reason RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(result EQUAL 0)
    set(STEPFUSE_LLVM_FILE ${CMAKE_CURRENT_BINARY_DIR}/_llvm.so)
    add_custom_command(OUTPUT ${STEPFUSE_LLVM_FILE} COMMAND ${static_llvm} ${STEPFUSE_LLVM_FILE} DEPENDS ${static_llvm}
                       COMMENT "Linking an LLVM for the package" VERBATIM)
    add_custom_target(package_llvm ALL DEPENDS ${STEPFUSE_LLVM_FILE})
  else()
    message(STATUS "The package will use the system's libLLVM: ${reason}")
  endif()
endif()

function(stepfuse_install_package)
  install(TARGETS stepfuse_core LIBRARY DESTINATION stepfuse)
  if(TARGET stepfuse_jax)
    install(TARGETS stepfuse_jax LIBRARY DESTINATION stepfuse)
  endif()
  # Under the one name that each is looked for by: a wheel has no symbolic links.
  install(PROGRAMS $<TARGET_FILE:stepfuse::shared> DESTINATION stepfuse RENAME $<TARGET_SONAME_FILE_NAME:stepfuse::shared>)
  if(STEPFUSE_TOOL)
    install(PROGRAMS ${STEPFUSE_TOOL} DESTINATION stepfuse/_bin RENAME stepfuse)
  endif()
  if(STEPFUSE_LLVM_FILE)
    install(PROGRAMS ${STEPFUSE_LLVM_FILE} DESTINATION stepfuse RENAME _llvm.so)
  endif()
  set(STEPFUSE_LICENCES "" CACHE PATH "a folder with the licence texts of the libraries that the wheel contains")
  if(STEPFUSE_LICENCES)
    install(DIRECTORY ${STEPFUSE_LICENCES}/ DESTINATION ${SKBUILD_METADATA_DIR}/licenses/third_party)
  endif()
endfunction()
