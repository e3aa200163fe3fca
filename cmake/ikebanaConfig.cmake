# What find_package(ikebana) reads. LibTorch and Boost are looked for here, on the machine that uses
# the package and by the source tree's own two files; a package that was moved finds them anew.
cmake_policy(VERSION 3.23...3.31)
unset(ikebana_NOT_FOUND_MESSAGE)
include(${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/BoostHeaders.cmake)
if(ikebana_NOT_FOUND_MESSAGE)
  set(ikebana_FOUND FALSE)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/ikebanaTargets.cmake)
