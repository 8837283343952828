# `cmake --install`: headers under include/stepfuse, and a package for find_package(stepfuse).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS stepfuse_ir stepfuse_compiler stepfuse_runtime EXPORT stepfuse-targets)
install(DIRECTORY ir compiler DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepfuse
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def")
install(DIRECTORY runtime/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT stepfuse-targets NAMESPACE stepfuse::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stepfuse)
configure_package_config_file(cmake/stepfuse-config.cmake.in stepfuse-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stepfuse)
write_basic_package_version_file(stepfuse-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stepfuse-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/stepfuse-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stepfuse)
