# Gives the target ikebana::libtorch, from the first of these that there is:
#   the target `torch` of a find_package(Torch) that was called before;
#   the folder IKEBANA_LIBTORCH; the torch wheel of IKEBANA_PYTHON;
#   a folder that Torch_DIR or CMAKE_PREFIX_PATH names, as variable or environment;
#   the wheel in .venv beside this project; the wheel of python3.
# From a folder the target is built here: the wheel's own find_package(Torch) needs a CUDA toolkit.
if(TARGET ikebana::libtorch)
  return()
endif()

function(ikebana_is_libtorch folder result)
  set(${result} FALSE PARENT_SCOPE)
  if(EXISTS ${folder}/lib/libtorch_cpu.so AND EXISTS ${folder}/include/torch/csrc/api/include)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

function(ikebana_libtorch_of_python python result)
  set(find "from importlib.util import find_spec as find
print(*find('torch').submodule_search_locations)")
  execute_process(COMMAND ${python} -c "${find}" OUTPUT_VARIABLE folder RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "" PARENT_SCOPE)
  if(NOT failed)
    set(${result} "${folder}" PARENT_SCOPE)
  endif()
endfunction()

# The folders where LibTorch may be, the user's own words first.
function(ikebana_libtorch_candidates result)
  set(folders)
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    list(APPEND folders ${prefix} ${prefix}/../..)  # torch.utils.cmake_prefix_path is share/cmake
  endforeach()
  string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(prefix IN LISTS prefixes)
    list(APPEND folders ${prefix} ${prefix}/../..)
  endforeach()
  foreach(config IN ITEMS "$ENV{Torch_DIR}" "${Torch_DIR}")
    if(config)
      list(PREPEND folders ${config}/../../..)
    endif()
  endforeach()
  file(GLOB venv ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(APPEND folders ${venv})
  set(${result} ${folders} PARENT_SCOPE)
endfunction()

function(ikebana_find_libtorch result)
  if(IKEBANA_LIBTORCH)
    set(folders ${IKEBANA_LIBTORCH})
  elseif(IKEBANA_PYTHON)
    ikebana_libtorch_of_python(${IKEBANA_PYTHON} folders)
  else()
    ikebana_libtorch_candidates(folders)
  endif()
  foreach(folder IN LISTS folders)
    ikebana_is_libtorch(${folder} found)
    if(found)
      file(REAL_PATH ${folder} folder)
      set(${result} ${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  if(IKEBANA_LIBTORCH)
    message(FATAL_ERROR "ikebana: IKEBANA_LIBTORCH is ${IKEBANA_LIBTORCH}, which holds no LibTorch:"
                        " name the folder that holds include/torch and lib/libtorch_cpu.so")
  elseif(IKEBANA_PYTHON)
    message(FATAL_ERROR "ikebana: IKEBANA_PYTHON is ${IKEBANA_PYTHON}, which has no torch: name a "
                        "Python with a torch of its own, or leave it out")
  endif()
  ikebana_libtorch_of_python(python3 folder)
  ikebana_is_libtorch("${folder}" found)
  if(NOT found)
    message(FATAL_ERROR "ikebana: LibTorch was not found: run scripts/setup in ikebana's folder, "
                        "or set IKEBANA_LIBTORCH to the folder that holds include/torch and lib/")
  endif()
  set(${result} ${folder} PARENT_SCOPE)
endfunction()

# The CPU-only wheel holds libtorch_cuda.so but not what that loads, so its presence proves nothing.
function(ikebana_add_cuda root)
  set(nvidia ${root}/../nvidia)
  file(GLOB runtime ${nvidia}/cu*/lib/libcudart.so.* ${root}/lib/libcudart*.so*)
  file(GLOB nccl ${nvidia}/nccl/lib/libnccl.so.2 ${root}/lib/libnccl.so*)
  if(NOT EXISTS ${root}/lib/libtorch_cuda.so OR NOT runtime OR NOT (nccl OR NOT EXISTS ${nvidia}))
    message(STATUS "ikebana: LibTorch without CUDA")
    return()
  endif()
  list(GET runtime 0 runtime)
  # Nothing calls libtorch_cuda.so by name: a linker that drops unused libraries turns CUDA off.
  target_link_libraries(ikebana::libtorch INTERFACE
    -Wl,--push-state,--no-as-needed,${root}/lib/libtorch_cuda.so,--pop-state
    ${root}/lib/libc10_cuda.so ${runtime})
  file(GLOB includes ${nvidia}/cu*/include ${nvidia}/nccl/include ${nvidia}/cudnn/include)
  target_include_directories(ikebana::libtorch SYSTEM INTERFACE ${includes})
  target_compile_definitions(ikebana::libtorch INTERFACE USE_C10D_NCCL)
  get_filename_component(runtime ${runtime} DIRECTORY)
  target_link_options(ikebana::libtorch INTERFACE LINKER:-rpath,${runtime})
  message(STATUS "ikebana: LibTorch with CUDA")
endfunction()

function(ikebana_add_libtorch root)
  foreach(header IN ITEMS headeronly/version.h csrc/api/include/torch/version.h)
    if(EXISTS ${root}/include/torch/${header})
      file(STRINGS ${root}/include/torch/${header} lines REGEX "define TORCH_VERSION_[MP][A-Z]+ ")
      break()
    endif()
  endforeach()
  string(REGEX MATCHALL "[0-9]+" version "${lines}")
  list(JOIN version "." version)
  if(version VERSION_LESS 2.8)
    message(FATAL_ERROR "ikebana: LibTorch ${version} in ${root} is too old: use 2.8 or newer")
  endif()
  message(STATUS "ikebana: LibTorch ${version} in ${root}")
  target_include_directories(ikebana::libtorch SYSTEM INTERFACE
    ${root}/include ${root}/include/torch/csrc/api/include)
  target_compile_definitions(ikebana::libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_libraries(ikebana::libtorch INTERFACE
    ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
  target_link_options(ikebana::libtorch INTERFACE LINKER:-rpath,${root}/lib)
  ikebana_add_cuda(${root})
endfunction()

add_library(ikebana::libtorch INTERFACE IMPORTED GLOBAL)
if(TARGET torch)
  message(STATUS "ikebana: LibTorch of the find_package(Torch) called before")
  set(libraries torch ${TORCH_LIBRARIES})
  list(REMOVE_DUPLICATES libraries)
  target_link_libraries(ikebana::libtorch INTERFACE ${libraries})
else()
  ikebana_find_libtorch(root)
  ikebana_add_libtorch(${root})
endif()
