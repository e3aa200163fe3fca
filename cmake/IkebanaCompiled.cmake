# ikebana_add_compiled(<folder>) defines ikebana::compiled, the compiled form of the library, of the
# sources in the folder: what stands in impl/*.ipp becomes a static library, and a program sees
# declarations alone. Nothing in a project without C++, which only looks for the package.
function(ikebana_add_compiled folder)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT CXX IN_LIST languages)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  add_library(ikebana_compiled STATIC EXCLUDE_FROM_ALL ${sources})
  add_library(ikebana::compiled ALIAS ikebana_compiled)
  target_compile_definitions(ikebana_compiled PUBLIC IKEBANA_COMPILED)
  target_link_libraries(ikebana_compiled PUBLIC ikebana::ikebana)
  target_precompile_headers(ikebana_compiled PRIVATE <ikebana/detail/torch.hpp>)
  # A shared library may link it.
  set_target_properties(ikebana_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON
                        OUTPUT_NAME ikebana EXPORT_NAME compiled)
endfunction()
