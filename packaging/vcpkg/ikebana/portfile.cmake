# An overlay port: vcpkg install ikebana --overlay-ports=packaging/vcpkg
# Not tried yet. It packs the source tree that it stands in, so that it needs no archive.
set(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../..")

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DIKEBANA_BUILD_TESTS=OFF -DIKEBANA_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME ikebana CONFIG_PATH share/cmake/ikebana)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
