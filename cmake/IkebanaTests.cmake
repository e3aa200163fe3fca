# ikebana_add_test(<name> SOURCES <files>...) adds an executable of doctest cases with the shared
# precompiled header. ctest runs it as one test, since LibTorch takes longer to start than most
# cases; test/main.cpp names the cases that failed.
if(NOT TARGET doctest::doctest)
  find_package(doctest REQUIRED)
endif()

# 1 with the thread sanitizer, which does not see the synchronisation of LibTorch's OpenMP threads.
set(IKEBANA_TEST_THREADS 2 CACHE STRING "OMP_NUM_THREADS of the tests")
set(IKEBANA_TEST_TIMEOUT 300 CACHE STRING "Seconds that a program of tests may take")
# Without this option the tests take a sample where many parts are alike, such as failing
# allocations.
option(IKEBANA_TEST_THOROUGH "Run every part of the tests, which takes hours" OFF)
mark_as_advanced(IKEBANA_TEST_THREADS IKEBANA_TEST_TIMEOUT IKEBANA_TEST_THOROUGH)

# In every translation unit g++ spends 8 s on templates that LibTorch's inline functions use,
# precompiled or not. So several files are compiled as one, each with a namespace of its own.
set(IKEBANA_TEST_BATCH 4 CACHE STRING "How many of a test's files are compiled as one")
mark_as_advanced(IKEBANA_TEST_BATCH)

add_library(ikebana_test_main OBJECT ${PROJECT_SOURCE_DIR}/test/main.cpp)
target_link_libraries(ikebana_test_main PUBLIC doctest::doctest)
target_compile_features(ikebana_test_main PUBLIC cxx_std_20)

function(ikebana_test_environment)
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${IKEBANA_TEST_TIMEOUT}
                       ENVIRONMENT OMP_NUM_THREADS=${IKEBANA_TEST_THREADS})
  if(IKEBANA_TEST_THOROUGH)
    set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT IKEBANA_TEST_THOROUGH=1)
  endif()
endfunction()

# Prepares tests in which several ranks have the bits of one. Otherwise, on AMD's processors, MKL's
# products of two or three rows depend on where these lie in memory: microbatches lie in a batch.
function(ikebana_test_bits_of_ranks)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT MKL_CBWR=AUTO)
endfunction()

# Compiles several of a program's files as one.
function(ikebana_batch name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON
                        UNITY_BUILD_BATCH_SIZE ${IKEBANA_TEST_BATCH})
endfunction()

# These expect errors with names of fields, which g++ spells, and clang from version 18 on.
set(IKEBANA_TESTS_OF_NAMES data/collate.cpp data/errors.cpp docs/errors.cpp docs/ranks.cpp
    program/inputs.cpp program/out/refused.cpp program/out/trainers.cpp ranks/compared.cpp
    ranks/exceptions.cpp trainer/bad_input.cpp trainer/failed_unit.cpp)
list(TRANSFORM IKEBANA_TESTS_OF_NAMES PREPEND ${PROJECT_SOURCE_DIR}/test/)

function(ikebana_set_up_test name)
  ikebana_batch(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test)
  target_link_libraries(${name} PRIVATE ikebana_dev doctest::doctest)
endfunction()

function(ikebana_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  set(by_clang)
  set(by_gxx)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    if(source IN_LIST IKEBANA_TESTS_OF_NAMES)
      list(APPEND by_gxx ${source})
    else()
      list(APPEND by_clang ${source})
    endif()
  endforeach()
  add_executable(${name} ${by_clang})
  ikebana_set_up_test(${name})
  target_link_libraries(${name} PRIVATE ikebana_test_main)
  ikebana_by_clang(${name})
  if(by_gxx)
    add_library(${name}_of_names OBJECT ${by_gxx})
    ikebana_set_up_test(${name}_of_names)
    target_precompile_headers(${name}_of_names REUSE_FROM ikebana_test_pch)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${name}_of_names>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  ikebana_test_environment(${name})
endfunction()

# ikebana_add_programs_as_one(<name> <files>...) adds an executable for each file, which has a main
# of its own, and compiles all of them as one unit. There the text of each stands in a namespace,
# without its includes, which come first; a second file of each calls the main in the namespace.
function(ikebana_add_programs_as_one name)
  foreach(source IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    cmake_path(GET source STEM program)
    string(MAKE_C_IDENTIFIER "program_${program}" scope)
    file(STRINGS ${source} lines REGEX "^#include ")
    list(APPEND includes ${lines})
    file(READ ${source} text)
    string(REGEX REPLACE "\n#include [^\n]*" "\n" text "${text}")
    string(APPEND programs "namespace ${scope} {\n#line 1 \"${source}\"\n${text}"
           "int run(int argc, char** argv) { return call(main, argc, argv); }\n}\n")
    file(CONFIGURE OUTPUT ${program}.main.cpp CONTENT "namespace ${scope} {
int run(int argc, char** argv);
}
int main(int argc, char** argv) { return ${scope}::run(argc, argv); }
")
    add_executable(${program} ${CMAKE_CURRENT_BINARY_DIR}/${program}.main.cpp)
    target_link_libraries(${program} PRIVATE ${name})
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "${includes}
int call(int (*program)(), int, char**) { return program(); }
int call(int (*program)(int, char**), int argc, char** argv) { return program(argc, argv); }
${programs}" @ONLY)
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC ikebana_examples)
  ikebana_by_clang(${name} HEADERS)
endfunction()

# Does this for sources whose declarations are in no namespace of the program: each is included,
# with another name for its `int main()`.
function(ikebana_add_global_programs_as_one name)
  foreach(source IN LISTS ARGN)
    cmake_path(GET source STEM program)
    string(APPEND programs "#define main run_${program}\n"
           "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n#undef main\n")
    file(CONFIGURE OUTPUT ${program}.main.cpp CONTENT "int run_${program}();
int main() { return run_${program}(); }
")
    add_executable(${program} ${CMAKE_CURRENT_BINARY_DIR}/${program}.main.cpp)
    target_link_libraries(${program} PRIVATE ${name})
  endforeach()
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "${programs}" @ONLY)
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC ikebana_examples)
  ikebana_by_clang(${name} HEADERS)
endfunction()
