# ikebana_add_test(<name> SOURCES <files>...) adds an executable of doctest cases with the shared
# precompiled header. Each case is a ctest, and so is the whole executable.
find_package(doctest REQUIRED)
include(doctest)

# 1 with the thread sanitizer, which does not see the synchronisation of LibTorch's OpenMP threads.
set(IKEBANA_TEST_THREADS 2 CACHE STRING "OMP_NUM_THREADS of the tests")
mark_as_advanced(IKEBANA_TEST_THREADS)
set(IKEBANA_TEST_TIMEOUT 300)

# In every translation unit g++ spends 10 s on templates that LibTorch's inline functions use,
# precompiled or not. So four files are compiled as one, each with a namespace of its own.
set(IKEBANA_TEST_BATCH 4 CACHE STRING "How many of a test's files are compiled as one")
mark_as_advanced(IKEBANA_TEST_BATCH)

add_library(ikebana_test_main OBJECT ${PROJECT_SOURCE_DIR}/test/main.cpp)
target_link_libraries(ikebana_test_main PUBLIC doctest::doctest)
target_compile_features(ikebana_test_main PUBLIC cxx_std_20)

# ctest's list of cases is a CMake list: `;` or a lone bracket in a name splits it into fragments,
# which match no case and pass.
function(ikebana_check_test_names file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(REGEX REPLACE "\\[[^][\n]*\\]" "" text "${text}")
  if(text MATCHES "(TEST_CASE|SCENARIO)[A-Z_]*\\([^\"\n]*\"[^\"\n]*[][;][^\"\n]*\"")
    message(FATAL_ERROR "ikebana: ${file}: leave the ; or the lone bracket out of the test's name, "
                        "or ctest runs nothing in its place and passes: ${CMAKE_MATCH_0}")
  endif()
endfunction()

function(ikebana_test_environment)
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${IKEBANA_TEST_TIMEOUT}
                       ENVIRONMENT OMP_NUM_THREADS=${IKEBANA_TEST_THREADS})
endfunction()

function(ikebana_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  foreach(file IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH file)
    ikebana_check_test_names(${file})
  endforeach()
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON
                        UNITY_BUILD_BATCH_SIZE ${IKEBANA_TEST_BATCH})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test)
  target_link_libraries(${name} PRIVATE ikebana_dev ikebana_test_main)
  target_precompile_headers(${name} REUSE_FROM ikebana_test_pch)
  doctest_discover_tests(${name} TEST_PREFIX "${name}: "
    PROPERTIES TIMEOUT ${IKEBANA_TEST_TIMEOUT} ENVIRONMENT OMP_NUM_THREADS=${IKEBANA_TEST_THREADS})
  add_test(NAME ${name} COMMAND ${name})
  ikebana_test_environment(${name})
endfunction()
