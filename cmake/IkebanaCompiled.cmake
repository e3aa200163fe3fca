# Defines ikebana::compiled, the compiled form of the library: what stands in impl/*.ipp, compiled
# once into a static library, and declarations alone for the program. An installed package that
# brings no such library has its sources, which are compiled in the project that links it.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT CXX IN_LIST languages)  # a project that only looks for the package
  unset(languages)
  return()
endif()
unset(languages)
if(NOT DEFINED ikebana_sources)
  set(ikebana_sources ${PROJECT_SOURCE_DIR}/src)
endif()
file(GLOB sources CONFIGURE_DEPENDS ${ikebana_sources}/*.cpp)
add_library(ikebana_compiled STATIC EXCLUDE_FROM_ALL ${sources})
unset(sources)
add_library(ikebana::compiled ALIAS ikebana_compiled)
target_compile_definitions(ikebana_compiled PUBLIC IKEBANA_COMPILED)
target_link_libraries(ikebana_compiled PUBLIC ikebana::ikebana)
target_precompile_headers(ikebana_compiled PRIVATE <ikebana/detail/torch.hpp>)
# A part of it may become a part of a shared library.
set_target_properties(ikebana_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON
                      OUTPUT_NAME ikebana EXPORT_NAME compiled)
