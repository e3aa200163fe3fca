# Read by find_package(ikebana). Finds LibTorch and Boost on the machine that uses the package, with
# the same two files as the source tree, so a package that was moved finds them again.
# COMPONENTS may name what is linked: ikebana, compiled and pch, which every package has.
cmake_policy(VERSION 3.23...3.31)
unset(ikebana_NOT_FOUND_MESSAGE)
foreach(component IN LISTS ikebana_FIND_COMPONENTS)
  if(component MATCHES "^(ikebana|compiled|pch)$")
    set(ikebana_${component}_FOUND TRUE)
  elseif(ikebana_FIND_REQUIRED_${component})
    set(ikebana_FOUND FALSE)
    set(ikebana_NOT_FOUND_MESSAGE "ikebana: there is no component ${component}; there are ikebana, \
compiled and pch.")
    return()
  endif()
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/BoostHeaders.cmake)
if(ikebana_NOT_FOUND_MESSAGE)
  set(ikebana_FOUND FALSE)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/ikebanaBuiltWith.cmake OPTIONAL)
if(DEFINED ikebana_BUILT_WITH AND NOT ikebana_BUILT_WITH STREQUAL ikebana_LIBTORCH_VERSION)
  set(ikebana_FOUND FALSE)
  set(ikebana_NOT_FOUND_MESSAGE "ikebana: this package has a library that was built with LibTorch \
${ikebana_BUILT_WITH}, and LibTorch ${ikebana_LIBTORCH_VERSION} was found. Use that version, or a \
package without a library, which compiles ikebana::compiled where it is linked.")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/ikebanaTargets.cmake)
if(NOT TARGET ikebana::compiled)
  include(${CMAKE_CURRENT_LIST_DIR}/IkebanaCompiled.cmake)
  ikebana_add_compiled(${CMAKE_CURRENT_LIST_DIR}/src)
endif()
