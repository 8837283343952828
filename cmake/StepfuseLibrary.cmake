# The library as others link it: the layers' objects as one archive, stepfuse::static, and as one
# shared object, stepfuse::shared. stepfuse::stepfuse is one of them. Where this is a subproject there
# is only that one, by BUILD_SHARED_LIBS, so that a parent builds nothing twice.
include(GNUInstallDirs)

# The C++ API promises nothing between minor versions; the C one is versioned by its symbols, too.
set(stepfuse_soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

function(stepfuse_product kind type)
  set(target stepfuse_${kind})
  add_library(${target} ${type})
  add_library(stepfuse::${kind} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME stepfuse EXPORT_NAME ${kind}
                        LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                        SOVERSION ${stepfuse_soversion})
  foreach(layer ir compiler runtime)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:stepfuse_${layer}>)
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${layer}/include>)
  endforeach()
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} PRIVATE fmt::fmt TBB::tbb Threads::Threads ${CMAKE_DL_LIBS})
  if(STEPFUSE_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${STEPFUSE_SANITIZE})
  endif()
endfunction()

if(PROJECT_IS_TOP_LEVEL OR NOT BUILD_SHARED_LIBS)
  stepfuse_product(static STATIC)
  set(stepfuse_default static)
endif()
if(PROJECT_IS_TOP_LEVEL OR BUILD_SHARED_LIBS)
  stepfuse_product(shared SHARED)
  set(stepfuse_default shared)
  set(map ${PROJECT_SOURCE_DIR}/cmake/stepfuse.map)
  target_link_options(stepfuse_shared PRIVATE LINKER:--version-script=${map})
  set_target_properties(stepfuse_shared PROPERTIES LINK_DEPENDS ${map})
endif()
add_library(stepfuse::stepfuse ALIAS stepfuse_${stepfuse_default})
