# The vcpkg port. It builds the clone that it is in: vcpkg install stepfuse --overlay-ports=CLONE/tools/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
set(libraries static)
if(VCPKG_LIBRARY_LINKAGE STREQUAL "dynamic")
  set(libraries shared)
endif()
vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES tool STEPFUSE_CLI)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DSTEPFUSE_TESTS=OFF -DSTEPFUSE_SAMPLES=OFF -DSTEPFUSE_WERROR=OFF
          -DSTEPFUSE_LIBRARIES=${libraries} ${options})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/stepfuse)
vcpkg_fixup_pkgconfig()
if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES stepfuse AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
