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

# With a sanitizer only tests that run the library's code are built; it has no use for those of
# compilers' messages, projects outside and instruction counts.
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

# Most programs of tests are compiled by clang++ where there is one beside g++, since it takes half
# the time and the memory; the others, and the library, by g++. Precompiled headers are each
# compiler's own. Older versions do not capture structured bindings, newer ones mangle names of
# LibTorch in another way.
find_program(IKEBANA_TEST_CLANGXX NAMES clang++-16 clang++-17)
mark_as_advanced(IKEBANA_TEST_CLANGXX)
set(IKEBANA_TWO_COMPILERS OFF)
if(IKEBANA_TEST_CLANGXX AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT IKEBANA_SANITIZED)
  set(IKEBANA_TWO_COMPILERS ON)
endif()
function(ikebana_by_clang)
  if(IKEBANA_TWO_COMPILERS)
    set(launcher ${PROJECT_SOURCE_DIR}/cmake/with_clang.sh ${CMAKE_CXX_COMPILER}
                 ${IKEBANA_TEST_CLANGXX} ${CMAKE_CXX_COMPILER_LAUNCHER})
    set_target_properties(${ARGN} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
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

# LibTorch, precompiled once for the tests and the examples; with IKEBANA_TEST_PCH_ALL the library,
# too. The object library that owns it is also the second unit of test/trainer/two_units.cpp.
option(IKEBANA_TEST_PCH_ALL "Precompile ikebana.hpp for the tests: any edit of it builds all" OFF)
set(precompiled <torch/torch.h>)
if(IKEBANA_TEST_PCH_ALL)
  list(APPEND precompiled <ikebana.hpp>)
endif()
if(IKEBANA_BUILD_TESTS)
  add_library(ikebana_test_pch OBJECT EXCLUDE_FROM_ALL
              ${PROJECT_SOURCE_DIR}/test/build/second_unit.cpp)
  target_link_libraries(ikebana_test_pch PRIVATE ikebana_dev)
  target_precompile_headers(ikebana_test_pch PRIVATE ${precompiled})
  add_library(ikebana_examples_pch OBJECT EXCLUDE_FROM_ALL
              ${PROJECT_SOURCE_DIR}/test/build/second_unit.cpp)
  target_link_libraries(ikebana_examples_pch PRIVATE ikebana_examples)
  target_precompile_headers(ikebana_examples_pch PRIVATE ${precompiled})
  set(IKEBANA_CLANG_PCH ikebana_test_pch)
  if(IKEBANA_TWO_COMPILERS)
    set(IKEBANA_CLANG_PCH ikebana_clang_pch)
    add_library(ikebana_clang_pch OBJECT EXCLUDE_FROM_ALL
                ${PROJECT_SOURCE_DIR}/test/build/second_unit.cpp)
    target_link_libraries(ikebana_clang_pch PRIVATE ikebana_dev)
    target_precompile_headers(ikebana_clang_pch PRIVATE ${precompiled})
    target_compile_options(ikebana_clang_pch PRIVATE -fpch-instantiate-templates)
    ikebana_by_clang(ikebana_clang_pch)
  endif()
endif()

# A program that is timed or whose instructions are counted: optimised in every build type.
function(ikebana_add_timed_program name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ikebana_examples)
  target_compile_options(${name} PRIVATE -O2)
endfunction()
