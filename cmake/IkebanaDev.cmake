# Settings of the project's own programs, in the header-only form and in the compiled one; none of
# them reaches a user's program. g++ collects garbage only above so many KiB, which saves a tenth of
# its time.
set(IKEBANA_GCC_HEAP 1048576 CACHE STRING "KiB that g++ may allocate before it collects garbage")
mark_as_advanced(IKEBANA_GCC_HEAP)
add_library(ikebana_dev_headers INTERFACE)
add_library(ikebana_dev INTERFACE)
target_link_libraries(ikebana_dev_headers INTERFACE ikebana::ikebana)
target_link_libraries(ikebana_dev INTERFACE ikebana_dev_headers ikebana::compiled)
target_compile_options(ikebana_dev_headers INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                       $<$<BOOL:${IKEBANA_WERROR}>:-Werror>
                       $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=${IKEBANA_GCC_HEAP}>)

# lld links a program of tests in a tenth of the time that GNU ld takes.
if(IKEBANA_BUILD_TESTS)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=lld IKEBANA_LLD)
  if(IKEBANA_LLD)
    target_link_options(ikebana_dev_headers INTERFACE -fuse-ld=lld)
  endif()
endif()

# IKEBANA_ORACLE runs a script with the Python that has the same torch, and fails without one.
if(IKEBANA_BUILD_TESTS OR IKEBANA_BUILD_BENCH)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(IKEBANA_ORACLE ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/test/oracle.py)
endif()

# With a sanitizer only tests that run the library's code are built, not the tests of compilers'
# messages, projects outside and instruction counts.
set(IKEBANA_SANITIZED OFF)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(IKEBANA_SANITIZED ON)
endif()

target_compile_options(ikebana_compiled PRIVATE -Wall -Wextra -Wpedantic -Wshadow
                       $<$<BOOL:${IKEBANA_WERROR}>:-Werror>)

# ccache caches a precompiled header only if it may ignore its time stamps.
find_program(IKEBANA_CCACHE ccache)
mark_as_advanced(IKEBANA_CCACHE)
if(IKEBANA_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${IKEBANA_CCACHE})
endif()

# Most programs of tests are compiled by clang++ if there is one beside g++, since it takes half
# the time and the memory; the others, and the library, by g++. Precompiled headers are each
# compiler's own. Older versions do not capture structured bindings, newer ones mangle names of
# LibTorch in another way.
find_program(IKEBANA_TEST_CLANGXX NAMES clang++-16 clang++-17)
mark_as_advanced(IKEBANA_TEST_CLANGXX)
set(IKEBANA_TWO_COMPILERS OFF)
if(IKEBANA_TEST_CLANGXX AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT IKEBANA_SANITIZED)
  set(IKEBANA_TWO_COMPILERS ON)
endif()
# With tcmalloc clang++ takes a tenth less time.
find_library(IKEBANA_TCMALLOC NAMES libtcmalloc_minimal.so.4)
mark_as_advanced(IKEBANA_TCMALLOC)
function(ikebana_launch_clang name)
  set(launcher ${PROJECT_SOURCE_DIR}/cmake/with_clang.sh ${CMAKE_CXX_COMPILER}
               ${IKEBANA_TEST_CLANGXX} ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(IKEBANA_TCMALLOC)
    list(PREPEND launcher ${CMAKE_COMMAND} -E env LD_PRELOAD=${IKEBANA_TCMALLOC})
  endif()
  set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
endfunction()

# Compiles a program of ikebana_dev so, with the precompiled headers; with HEADERS one of
# ikebana_examples, which is header-only.
function(ikebana_by_clang name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HEADERS" "" "")
  set(pch ikebana_test_pch)
  if(IKEBANA_TWO_COMPILERS)
    ikebana_launch_clang(${name})
    set(pch ikebana_clang_pch)
  endif()
  if(arg_HEADERS)
    set(pch ikebana_examples_pch)
  endif()
  target_precompile_headers(${name} REUSE_FROM ${pch})
endfunction()

# The headers of examples/, for every program that uses them. With the tests examples are built
# header-only, and the tests themselves in the compiled form, so that both are run. In
# IKEBANA_INCLUDE_PATH text.hpp looks for LibTorch's headers, a text that every machine has.
add_library(ikebana_examples INTERFACE)
target_include_directories(ikebana_examples INTERFACE ${PROJECT_SOURCE_DIR}/examples)
if(IKEBANA_BUILD_TESTS)
  target_link_libraries(ikebana_examples INTERFACE ikebana_dev_headers)
else()
  target_link_libraries(ikebana_examples INTERFACE ikebana_dev)
endif()
set(folders $<TARGET_PROPERTY:ikebana::libtorch,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(ikebana_examples INTERFACE IKEBANA_INCLUDE_PATH="$<JOIN:${folders},:>")

# LibTorch, precompiled for the library's two forms: header-only for the examples, by clang++ if
# there is one, and compiled for the tests, by g++ and by clang++. With IKEBANA_TEST_PCH_ALL the
# library is in it, too. The object libraries that own it are also units of
# test/trainer/two_units.cpp, of either form.
option(IKEBANA_TEST_PCH_ALL "Precompile ikebana.hpp for the tests: any edit of it builds all" OFF)
function(ikebana_add_pch name programs)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/test/build/second_unit.cpp)
  target_link_libraries(${name} PRIVATE ${programs})
  set(precompiled <torch/torch.h>)
  if(IKEBANA_TEST_PCH_ALL)
    list(APPEND precompiled <ikebana.hpp>)
  endif()
  target_precompile_headers(${name} PRIVATE ${precompiled})
endfunction()
if(IKEBANA_BUILD_TESTS)
  ikebana_add_pch(ikebana_test_pch ikebana_dev)
  ikebana_add_pch(ikebana_examples_pch ikebana_examples)
  if(IKEBANA_TWO_COMPILERS)
    ikebana_add_pch(ikebana_clang_pch ikebana_dev)
    foreach(name IN ITEMS ikebana_clang_pch ikebana_examples_pch)
      target_compile_options(${name} PRIVATE -fpch-instantiate-templates)
      ikebana_launch_clang(${name})
    endforeach()
  endif()
endif()

# A program that is timed or whose instructions are counted: optimised in every build type.
function(ikebana_add_timed_program name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ikebana_examples)
  target_compile_options(${name} PRIVATE -O2)
endfunction()
