# Read by find_package(ikebana). Finds LibTorch and Boost on the machine that uses the package, with
# the same two files as the source tree, so a package that was moved finds them again.
cmake_policy(VERSION 3.23...3.31)
unset(ikebana_NOT_FOUND_MESSAGE)
include(${CMAKE_CURRENT_LIST_DIR}/LibTorch.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/BoostHeaders.cmake)
if(ikebana_NOT_FOUND_MESSAGE)
  set(ikebana_FOUND FALSE)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/ikebanaTargets.cmake)
