# On a machine without a network, IKEBANA_GPU_BUNDLE (of CMake or of the environment) names a folder
# that scripts/gpu-bundle made elsewhere. Boost's headers and doctest are then taken from there.
set(IKEBANA_GPU_BUNDLE "" CACHE PATH "A folder that scripts/gpu-bundle made")
set(bundle ${IKEBANA_GPU_BUNDLE})
if(NOT bundle)
  set(bundle $ENV{IKEBANA_GPU_BUNDLE})
endif()
if(NOT bundle)
  return()
endif()

foreach(file IN ITEMS MANIFEST include/boost/hana.hpp include/doctest/doctest.h)
  if(NOT EXISTS ${bundle}/${file})
    message(FATAL_ERROR "ikebana: IKEBANA_GPU_BUNDLE is ${bundle}, which has no ${file}: make a \
bundle where there is a network, by `scripts/gpu-bundle FOLDER`, and copy the folder here.")
  endif()
endforeach()
# Only now, since a wrong name of the environment would else stay.
set_property(CACHE IKEBANA_GPU_BUNDLE PROPERTY VALUE ${bundle})
foreach(target IN ITEMS Boost::headers doctest::doctest)
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} INTERFACE ${bundle}/include)
  endif()
endforeach()
