# What the project's own programs are built with; nothing of this reaches a user's program.
add_library(ikebana_dev INTERFACE)
target_link_libraries(ikebana_dev INTERFACE ikebana::ikebana)
target_compile_options(ikebana_dev INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                       $<$<BOOL:${IKEBANA_WERROR}>:-Werror>)

# A precompiled header is cached only when ccache may ignore its time stamps.
find_program(IKEBANA_CCACHE ccache)
mark_as_advanced(IKEBANA_CCACHE)
if(IKEBANA_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${IKEBANA_CCACHE})
endif()
