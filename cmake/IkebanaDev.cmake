# What the project's own programs are built with; nothing of this reaches a user's program. g++
# collects its garbage from 1 GiB on, which saves a tenth of its time.
add_library(ikebana_dev INTERFACE)
target_link_libraries(ikebana_dev INTERFACE ikebana::ikebana)
target_compile_options(ikebana_dev INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                       $<$<BOOL:${IKEBANA_WERROR}>:-Werror>
                       $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)

# IKEBANA_ORACLE runs a script by the Python that has the same torch, and fails without one.
if(IKEBANA_BUILD_TESTS OR IKEBANA_BUILD_BENCH)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(IKEBANA_ORACLE ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/test/oracle.py)
endif()

# Under a sanitizer only what runs the library's code is built: compilers' messages, projects
# outside and instructions are none of its business.
set(IKEBANA_SANITIZED OFF)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(IKEBANA_SANITIZED ON)
endif()

# A precompiled header is cached only when ccache may ignore its time stamps.
find_program(IKEBANA_CCACHE ccache)
mark_as_advanced(IKEBANA_CCACHE)
if(IKEBANA_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${IKEBANA_CCACHE})
endif()

# examples/gpt.hpp and its neighbours, for every program that uses them. IKEBANA_INCLUDE_PATH is
# where text.hpp looks for LibTorch's headers, the text that every machine has.
add_library(ikebana_examples INTERFACE)
target_include_directories(ikebana_examples INTERFACE ${PROJECT_SOURCE_DIR}/examples)
target_link_libraries(ikebana_examples INTERFACE ikebana_dev)
set(folders $<TARGET_PROPERTY:ikebana::libtorch,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(ikebana_examples INTERFACE IKEBANA_INCLUDE_PATH="$<JOIN:${folders},:>")

# LibTorch parsed once for the tests and the examples beside them; the object exists only to own it.
if(IKEBANA_BUILD_TESTS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/ikebana_test_pch.cpp CONTENT "")
  add_library(ikebana_test_pch OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/ikebana_test_pch.cpp)
  target_link_libraries(ikebana_test_pch PRIVATE ikebana_dev)
  target_precompile_headers(ikebana_test_pch PRIVATE <torch/torch.h>)
endif()

# A program that is timed or whose instructions are counted: optimised whatever the build.
function(ikebana_add_timed_program name source)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ikebana_examples)
  target_compile_options(${name} PRIVATE -O2)
endfunction()
