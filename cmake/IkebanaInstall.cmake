# The files that `cmake --install` copies: the headers, the sources of the compiled form or its
# library, and what find_package(ikebana) reads.
option(IKEBANA_INSTALL_COMPILED "Install the library of ikebana::compiled, not its sources" OFF)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_DATADIR}/cmake/ikebana)
set(version_file ${CMAKE_CURRENT_BINARY_DIR}/ikebanaConfigVersion.cmake)
set(independent ARCH_INDEPENDENT)
if(IKEBANA_INSTALL_COMPILED)
  set(independent)
endif()
write_basic_package_version_file(${version_file} COMPATIBILITY SameMinorVersion ${independent})

target_include_directories(ikebana INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ikebana/shard/gloo>)
install(TARGETS ikebana ikebana_pch EXPORT ikebanaTargets FILE_SET HEADERS)
if(IKEBANA_INSTALL_COMPILED)
  set_target_properties(ikebana_compiled PROPERTIES EXCLUDE_FROM_ALL OFF)
  install(TARGETS ikebana_compiled EXPORT ikebanaTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set(built_with ${CMAKE_CURRENT_BINARY_DIR}/ikebanaBuiltWith.cmake)
  file(CONFIGURE OUTPUT ${built_with}
       CONTENT "set(ikebana_BUILT_WITH ${ikebana_LIBTORCH_VERSION})\n")
  install(FILES ${built_with} DESTINATION ${package})
else()
  install(DIRECTORY src DESTINATION ${package} PATTERN components EXCLUDE)
  install(FILES cmake/IkebanaCompiled.cmake DESTINATION ${package})
endif()
install(EXPORT ikebanaTargets NAMESPACE ikebana:: DESTINATION ${package})
install(FILES ${version_file} cmake/ikebanaConfig.cmake cmake/LibTorch.cmake
              cmake/BoostHeaders.cmake cmake/IkebanaComponents.cmake
        DESTINATION ${package})
install(DIRECTORY src/components DESTINATION ${package})
# For builds without CMake.
set(pkgconfig ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH to_prefix /${pkgconfig} /)
string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
configure_file(cmake/ikebana.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ikebana.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ikebana.pc DESTINATION ${pkgconfig})
# These scripts convert weights of other formats and export models of Python; errors name them.
install(PROGRAMS scripts/pth_to_safetensors.py scripts/gguf_to_safetensors.py
                 scripts/export_program.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/ikebana/scripts)
install(FILES scripts/gdb/ikebana.py DESTINATION ${CMAKE_INSTALL_DATADIR}/ikebana/scripts/gdb)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
