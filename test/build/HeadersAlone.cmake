# The target headers_alone parses the headers that users include, or all if the tests are thorough,
# each by itself, with clang if there is one, which takes a second per header with LibTorch
# precompiled, and g++ nine. headers_alone.py has the details.
find_program(IKEBANA_CLANGXX NAMES clang++ clang++-19 clang++-14)
mark_as_advanced(IKEBANA_CLANGXX)
set(compiler ${CMAKE_CXX_COMPILER})
if(IKEBANA_CLANGXX)
  set(compiler ${IKEBANA_CLANGXX})
endif()
set(include ${PROJECT_SOURCE_DIR}/include)
set(folder ${CMAKE_CURRENT_BINARY_DIR}/headers_alone)

# The compiler's own folder must not come before the standard library's.
function(write_flags file target)
  set(folders $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
  set(folders $<FILTER:${folders},EXCLUDE,^/usr/include/?$>)
  list(JOIN ARGN "\n" flags)
  file(GENERATE OUTPUT ${folder}/${file} CONTENT
    "${flags}\n$<$<BOOL:${folders}>:-isystem\n\"$<JOIN:${folders},\"\n-isystem\n\">\"\n>")
endfunction()
write_flags(flags ikebana::boost -std=gnu++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion
            -Wsign-conversion -Werror -DIKEBANA_COMPILED \"-I${include}\")
write_flags(torch_flags ikebana::libtorch -isystem \"${include}/ikebana/shard/gloo\")

# Precompiles a header as ${folder}/<name>.gch, which both compilers take for ${folder}/<name>.
set(precompiled)
function(precompile name header)
  set(file ${folder}/${name})
  file(CONFIGURE OUTPUT ${file} CONTENT "#include <${header}>\n")
  add_custom_command(OUTPUT ${file}.gch DEPFILE ${file}.gch.d DEPENDS ${precompiled}
    COMMAND ${compiler} @${folder}/flags @${folder}/torch_flags ${ARGN} -x c++-header
      ${file} -o ${file}.gch -MD -MF ${file}.gch.d -MT ${file}.gch
    COMMENT "${header}, precompiled for headers_alone" VERBATIM)
  set(precompiled ${precompiled} ${file}.gch PARENT_SCOPE)
endfunction()

# Precompiles LibTorch, which most headers include, hooks.hpp, which half of them include, and all
# headers, for the tests of refusals. With clang one precompiled header may include another, but not
# with g++.
set(instantiate)
if(IKEBANA_CLANGXX)
  set(instantiate -fpch-instantiate-templates)
endif()
precompile(torch.hpp ikebana/detail/torch.hpp ${instantiate})
if(IKEBANA_CLANGXX)
  precompile(hooks.hpp ikebana/hooks.hpp ${instantiate} -include ${folder}/torch.hpp)
endif()
set(before_chains ${precompiled})
if(IKEBANA_CLANGXX AND IKEBANA_TEST_PCH_ALL)
  precompile(all.hpp ikebana.hpp ${instantiate} -include ${folder}/hooks.hpp)
endif()

# The chains by the includes as they are now; headers_alone.py splits one that is outdated.
# Python starts faster without its packages (-I -S).
set(check ${Python3_EXECUTABLE} -I -S ${CMAKE_CURRENT_SOURCE_DIR}/headers_alone.py)
set(users ${PROJECT_SOURCE_DIR})
if(IKEBANA_TEST_THOROUGH)
  set(users)
endif()
execute_process(COMMAND ${check} chains ${include} ${users} OUTPUT_VARIABLE chains
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" chains "${chains}")
set(checked)
foreach(chain IN LISTS chains)
  string(REPLACE " " ";" chain "${chain}")
  list(GET chain -1 last)
  string(MAKE_C_IDENTIFIER ${last} name)
  set(output ${folder}/${name})
  set(needed ${before_chains})
  if(last STREQUAL "ikebana.hpp")
    set(needed ${precompiled})
  endif()
  add_custom_command(OUTPUT ${output} DEPENDS ${needed} headers_alone.py DEPFILE ${output}.d
    COMMAND ${check} parse ${include} ${folder} ${output} ${compiler} ${chain}
    COMMENT "${last} alone" VERBATIM)
  list(APPEND checked ${output})
endforeach()
add_custom_target(headers_alone_pch ALL DEPENDS ${precompiled})
add_custom_target(headers_alone DEPENDS ${checked})

cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
set(keep_going -k)
if(CMAKE_GENERATOR STREQUAL Ninja)
  set(keep_going -k 0)
endif()
add_test(NAME headers_alone COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} -j ${cores}
         --target headers_alone -- ${keep_going})
set_tests_properties(headers_alone PROPERTIES TIMEOUT 1200 PROCESSORS ${cores})
