# `cmake --install`: the public headers, the libraries, and packages for find_package(stepfuse), from
# the install prefix and from the build folder, and for pkg-config.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stepfuse)
foreach(kind static shared)
  if(TARGET stepfuse_${kind})
    install(TARGETS stepfuse_${kind} EXPORT stepfuse-${kind}
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(EXPORT stepfuse-${kind} NAMESPACE stepfuse:: DESTINATION ${package_dir})
    export(EXPORT stepfuse-${kind} NAMESPACE stepfuse::
           FILE ${PROJECT_BINARY_DIR}/stepfuse-${kind}.cmake)
  endif()
endforeach()
foreach(layer ir compiler runtime)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${layer}/include/
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()

configure_package_config_file(cmake/stepfuse-config.cmake.in
                              ${PROJECT_BINARY_DIR}/stepfuse-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stepfuse-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stepfuse-config.cmake
              ${PROJECT_BINARY_DIR}/stepfuse-config-version.cmake DESTINATION ${package_dir})

# Found relative to the .pc file, so that the installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/stepfuse.pc.in ${PROJECT_BINARY_DIR}/stepfuse.pc @ONLY)
configure_file(cmake/stepfuse-library.pc.in ${PROJECT_BINARY_DIR}/stepfuse-library.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/stepfuse.pc ${PROJECT_BINARY_DIR}/stepfuse-library.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
