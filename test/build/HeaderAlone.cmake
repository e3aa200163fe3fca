cmake_minimum_required(VERSION 3.23)

# Parses one header with nothing before it. A header that reaches detail/torch.hpp gets that one
# precompiled, which it would parse first anyway; any other does not see LibTorch's folders at all,
# so a header that uses LibTorch without saying so fails.
set(gate ikebana/detail/torch.hpp)

function(reaches_torch header result)
  set(pending ${header})
  set(seen)
  while(pending)
    list(POP_FRONT pending next)
    list(APPEND seen ${next})
    file(STRINGS ${INCLUDE}/${next} lines REGEX "^#include [<\"]ikebana")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include [<\"]([^>\"]*).*" "\\1" included "${line}")
      if(NOT included IN_LIST seen)
        list(APPEND pending ${included})
      endif()
    endforeach()
  endwhile()
  set(${result} FALSE PARENT_SCOPE)
  if(gate IN_LIST seen)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

set(flags @${FOLDER}/flags)
if(HEADER STREQUAL gate)
  list(APPEND flags @${FOLDER}/torch_flags)
else()
  file(STRINGS ${INCLUDE}/${HEADER} forbidden REGEX "^#include [<\"](torch|ATen|c10)/")
  if(forbidden)
    message(FATAL_ERROR "${HEADER} includes LibTorch by itself (${forbidden}): include <${gate}>, "
                        "which keeps X11's and Qt's macros away")
  endif()
  reaches_torch(${HEADER} torch)
  if(torch)
    list(APPEND flags @${FOLDER}/torch_flags -include ${FOLDER}/torch.hpp)
  endif()
endif()

execute_process(COMMAND ${COMPILER} ${flags} -include ${INCLUDE}/${HEADER} -fsyntax-only /dev/null
                  -MD -MF ${OUTPUT}.d -MT ${OUTPUT} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${HEADER} does not compile alone, without warnings: "
                      "it must include what it uses")
endif()
file(TOUCH ${OUTPUT})
