# `cpack`: a Debian package and an archive of what is installed, and the documentation in both.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/samples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING REGEX "\\.(md|svg|png|txt|cpp|hpp|c|h|py|json|sf|sh)$")

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME stepfuse)
set(CPACK_PACKAGE_CONTACT "The stepfuse maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The library opens LLVM when it compiles a kernel. Programs that link the static library need the others.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libllvm19 | libllvm20 | libllvm21")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libfmt-dev, libtbb-dev, pkg-config")
# Debian's place for the licence.
file(COPY_FILE ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_BINARY_DIR}/copyright)
install(FILES ${PROJECT_BINARY_DIR}/copyright DESTINATION share/doc/stepfuse)
include(CPack)
