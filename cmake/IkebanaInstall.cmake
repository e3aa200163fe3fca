# The files that `cmake --install` copies: the headers, and what find_package(ikebana) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_DATADIR}/cmake/ikebana)
set(version_file ${CMAKE_CURRENT_BINARY_DIR}/ikebanaConfigVersion.cmake)
write_basic_package_version_file(${version_file} COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

target_include_directories(ikebana INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ikebana/shard/gloo>)
install(TARGETS ikebana ikebana_pch EXPORT ikebanaTargets FILE_SET HEADERS)
install(EXPORT ikebanaTargets NAMESPACE ikebana:: DESTINATION ${package})
install(FILES ${version_file} cmake/ikebanaConfig.cmake cmake/LibTorch.cmake
              cmake/BoostHeaders.cmake DESTINATION ${package})
# What converts weights of other formats; errors name these.
install(PROGRAMS scripts/pth_to_safetensors.py scripts/gguf_to_safetensors.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/ikebana/scripts)
install(FILES scripts/gdb/ikebana.py DESTINATION ${CMAKE_INSTALL_DATADIR}/ikebana/scripts/gdb)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
