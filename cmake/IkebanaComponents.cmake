# The optional components: headers that need a library of the machine besides LibTorch. A program
# that links ikebana::images, ikebana::tokenizer or ikebana::parquet may include
# <ikebana/images.hpp>, <ikebana/tokenizer.hpp> or <ikebana/parquet.hpp>, in either form.
set(IKEBANA_COMPONENTS images tokenizer parquet)
# In the source tree, or installed beside this file.
if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/components)
  set(IKEBANA_COMPONENT_SOURCES ${CMAKE_CURRENT_LIST_DIR}/components)
else()
  set(IKEBANA_COMPONENT_SOURCES ${CMAKE_CURRENT_LIST_DIR}/../src/components)
endif()

# ikebana_add_component(<name>) defines ikebana::<name> if its libraries are found; otherwise
# ikebana_<name>_refusal says what is missing. Nothing in a project without C++.
function(ikebana_add_component name)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(TARGET ikebana::${name} OR NOT CXX IN_LIST languages)
    return()
  endif()
  set(libraries)
  cmake_language(CALL ikebana_find_${name})
  if(NOT libraries)
    set(ikebana_${name}_refusal "${refusal}" PARENT_SCOPE)
    return()
  endif()
  if(name STREQUAL parquet)  # only its one source sees Arrow's headers, which take seconds
    add_library(ikebana_parquet STATIC EXCLUDE_FROM_ALL ${IKEBANA_COMPONENT_SOURCES}/parquet.cpp)
    set_target_properties(ikebana_parquet PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_libraries(ikebana_parquet PUBLIC ikebana::ikebana PRIVATE ${libraries})
  else()
    add_library(ikebana_${name} INTERFACE)
    target_link_libraries(ikebana_${name} INTERFACE ikebana::ikebana ${libraries})
  endif()
  add_library(ikebana::${name} ALIAS ikebana_${name})
endfunction()

# Each sets `libraries`, or `refusal`, of its caller.
macro(ikebana_find_images)
  find_package(JPEG QUIET)
  find_package(PNG QUIET)
  find_package(ZLIB QUIET)
  if(JPEG_FOUND AND PNG_FOUND AND ZLIB_FOUND)
    set(libraries JPEG::JPEG PNG::PNG ZLIB::ZLIB)
  endif()
  set(refusal "ikebana::images needs libjpeg-turbo, libpng and zlib with their headers. On Debian: \
apt-get install libjpeg-dev libpng-dev zlib1g-dev")
endmacro()

macro(ikebana_find_tokenizer)
  find_path(IKEBANA_PCRE2_INCLUDE pcre2.h)
  find_library(IKEBANA_PCRE2_LIBRARY pcre2-8)
  mark_as_advanced(IKEBANA_PCRE2_INCLUDE IKEBANA_PCRE2_LIBRARY)
  if(IKEBANA_PCRE2_INCLUDE AND IKEBANA_PCRE2_LIBRARY)
    if(NOT TARGET ikebana_pcre2)
      add_library(ikebana_pcre2 INTERFACE IMPORTED GLOBAL)
      set_target_properties(ikebana_pcre2 PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES ${IKEBANA_PCRE2_INCLUDE}
        INTERFACE_LINK_LIBRARIES ${IKEBANA_PCRE2_LIBRARY})
    endif()
    set(libraries ikebana_pcre2)
  endif()
  set(refusal "ikebana::tokenizer needs PCRE2 with its headers. On Debian: apt-get install \
libpcre2-dev")
endmacro()

# IKEBANA_ARROW names the folder of Python's package pyarrow, whose wheel has Arrow's libraries and
# headers; without it, Arrow's own CMake package is looked for.
macro(ikebana_find_parquet)
  set(IKEBANA_ARROW "" CACHE PATH "Folder of the Python package pyarrow")
  if(IKEBANA_ARROW)
    file(GLOB arrow ${IKEBANA_ARROW}/libarrow.so.*)
    file(GLOB parquet_library ${IKEBANA_ARROW}/libparquet.so.*)
    if(arrow AND parquet_library AND EXISTS ${IKEBANA_ARROW}/include/arrow/api.h)
      list(GET arrow 0 arrow)
      list(GET parquet_library 0 parquet_library)
      if(NOT TARGET ikebana_arrow)
        add_library(ikebana_arrow INTERFACE IMPORTED GLOBAL)
        set_target_properties(ikebana_arrow PROPERTIES
          INTERFACE_INCLUDE_DIRECTORIES ${IKEBANA_ARROW}/include
          INTERFACE_LINK_LIBRARIES "${parquet_library};${arrow}"
          INTERFACE_LINK_OPTIONS "LINKER:-rpath,${IKEBANA_ARROW}")
      endif()
      set(libraries ikebana_arrow)
    endif()
  else()
    find_package(Parquet QUIET)
    if(TARGET Parquet::parquet_shared)
      set(libraries Parquet::parquet_shared Arrow::arrow_shared)
    endif()
  endif()
  set(refusal "ikebana::parquet needs Arrow's C++ libraries. Write pip install pyarrow, and \
-DIKEBANA_ARROW=<folder of the package pyarrow>; or install Arrow with its CMake packages")
endmacro()
