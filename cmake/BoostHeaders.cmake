# Defines the target ikebana::boost: Boost's headers, of which Hana is used. If they are not found,
# ikebana_NOT_FOUND_MESSAGE says what to do.
if(TARGET ikebana::boost)
  return()
endif()

function(ikebana_provide_boost refusal)
  if(NOT TARGET Boost::headers)
    find_package(Boost CONFIG QUIET HINTS ${BOOST_ROOT} $ENV{BOOST_ROOT})
    # Only a target that was created in this folder can be made global.
    if(TARGET Boost::headers)
      set_target_properties(Boost::headers PROPERTIES IMPORTED_GLOBAL TRUE)
    endif()
  endif()
  if(NOT TARGET Boost::headers)
    find_path(IKEBANA_BOOST_INCLUDE_DIR boost/hana.hpp HINTS ${BOOST_ROOT} $ENV{BOOST_ROOT}
              PATH_SUFFIXES include)
    mark_as_advanced(IKEBANA_BOOST_INCLUDE_DIR)
    if(NOT IKEBANA_BOOST_INCLUDE_DIR)
      set(${refusal} "ikebana: boost/hana.hpp was not found: install libboost-dev, or set \
BOOST_ROOT, in CMake or in the environment, to the folder that holds boost/." PARENT_SCOPE)
      return()
    endif()
  endif()
  add_library(ikebana::boost INTERFACE IMPORTED GLOBAL)
  if(TARGET Boost::headers)
    target_link_libraries(ikebana::boost INTERFACE Boost::headers)
  else()
    target_include_directories(ikebana::boost SYSTEM INTERFACE ${IKEBANA_BOOST_INCLUDE_DIR})
  endif()
endfunction()
ikebana_provide_boost(ikebana_NOT_FOUND_MESSAGE)
