# Defines the target ikebana::libtorch from the first of these that exists:
#   the target `torch` of a find_package(Torch) that was called before;
#   the folder IKEBANA_LIBTORCH (of CMake or of the environment); the torch wheel of IKEBANA_PYTHON;
#   a folder that Torch_DIR or CMAKE_PREFIX_PATH names, as variable or environment;
#   the wheel in .venv of the project that asks; the wheel of python3.
# For a folder this file defines the target itself, since the wheel's find_package(Torch) needs a
# CUDA toolkit. If nothing is found, ikebana_NOT_FOUND_MESSAGE says what to do.
if(TARGET ikebana::libtorch)
  return()
endif()

set(IKEBANA_LIBTORCH "" CACHE PATH "LibTorch's folder, the one that holds include/ and lib/")
# Read again while it is empty: a first run without it must not hide the environment's for good.
if(NOT IKEBANA_LIBTORCH)
  set_property(CACHE IKEBANA_LIBTORCH PROPERTY VALUE "$ENV{IKEBANA_LIBTORCH}")
endif()
set(IKEBANA_PYTHON "" CACHE FILEPATH
    "The Python whose torch is used where IKEBANA_LIBTORCH is empty")

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

# Lists the folders where LibTorch may be; the folders that the user names come first.
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
  ikebana_libtorch_of_python(python3 python)
  set(${result} ${folders} ${venv} ${python} PARENT_SCOPE)
endfunction()

# Sets either the folder or, if it is not found, the error message.
function(ikebana_find_libtorch result refusal)
  if(IKEBANA_LIBTORCH)
    set(folders ${IKEBANA_LIBTORCH})
    set(sentence "IKEBANA_LIBTORCH is ${IKEBANA_LIBTORCH}, which holds no LibTorch: name the "
                 "folder that holds include/torch and lib/libtorch_cpu.so")
  elseif(IKEBANA_PYTHON)
    set(python ${IKEBANA_PYTHON})
    if(NOT EXISTS ${python})  # a name on PATH, of which CMake made a path
      cmake_path(GET python FILENAME python)
    endif()
    ikebana_libtorch_of_python(${python} folders)
    set(sentence "IKEBANA_PYTHON is ${IKEBANA_PYTHON}, which has no torch: name a Python with a "
                 "torch of its own, or leave it out")
  else()
    ikebana_libtorch_candidates(folders)
    set(sentence "LibTorch was not found: set IKEBANA_LIBTORCH, in CMake or in the environment, to "
                 "the folder that holds include/torch and lib/, or `pip install torch`")
  endif()
  foreach(folder IN LISTS folders)
    ikebana_is_libtorch(${folder} found)
    if(found)
      file(REAL_PATH ${folder} folder)
      set(${result} ${folder} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  list(JOIN sentence "" sentence)
  set(${refusal} "ikebana: ${sentence}." PARENT_SCOPE)
endfunction()

function(ikebana_libtorch_version root result)
  foreach(header IN ITEMS headeronly/version.h csrc/api/include/torch/version.h)
    set(header ${root}/include/torch/${header})
    if(EXISTS ${header})
      file(STRINGS ${header} lines REGEX "define TORCH_VERSION_[MP][A-Z]+ ")
      break()
    endif()
  endforeach()
  string(REGEX MATCHALL "[0-9]+" version "${lines}")
  list(JOIN version "." version)
  set(${result} ${version} PARENT_SCOPE)
endfunction()

function(ikebana_cuda_runtime root result)
  file(GLOB runtime ${root}/../nvidia/cu*/lib/libcudart.so.* ${root}/lib/libcudart*.so*)
  if(runtime)
    list(GET runtime 0 runtime)
  endif()
  set(${result} "${runtime}" PARENT_SCOPE)
endfunction()

# The wheels beside torch have CUDA's headers, but crt/ and CCCL only if their two wheels were
# installed as well. Without them, the toolkit's headers follow.
function(ikebana_cuda_includes root result)
  file(GLOB includes ${root}/../nvidia/cu*/include ${root}/../nvidia/nccl/include)
  find_file(crt crt/host_config.h PATHS ${includes} NO_DEFAULT_PATH NO_CACHE)
  find_file(target nv/target PATHS ${includes} NO_DEFAULT_PATH NO_CACHE)
  if(NOT crt OR NOT target)
    find_program(nvcc nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin
                 PATHS /usr/local/cuda/bin NO_CACHE)
    if(nvcc)
      file(REAL_PATH ${nvcc} nvcc)
      cmake_path(GET nvcc PARENT_PATH toolkit)
      cmake_path(GET toolkit PARENT_PATH toolkit)
      file(GLOB toolkit ${toolkit}/include ${toolkit}/include/cccl)
      list(APPEND includes ${toolkit})
    endif()
  endif()
  set(${result} ${includes} PARENT_SCOPE)
endfunction()

# The CPU-only wheel contains libtorch_cuda.so, but not its dependencies.
function(ikebana_add_cuda root result)
  set(${result} "without CUDA" PARENT_SCOPE)
  set(nvidia ${root}/../nvidia)
  ikebana_cuda_runtime(${root} runtime)
  file(GLOB nccl ${nvidia}/nccl/lib/libnccl.so.2 ${root}/lib/libnccl.so*)
  if(NOT EXISTS ${root}/lib/libtorch_cuda.so OR NOT runtime OR NOT (nccl OR NOT EXISTS ${nvidia}))
    return()
  endif()
  # No symbol of libtorch_cuda.so is referenced, so a linker that drops unused libraries would turn
  # CUDA off. The quotes are for the shell: CMake does not quote an item that begins with a dash.
  target_link_libraries(ikebana::libtorch INTERFACE
    "-Wl,--push-state,--no-as-needed,\"${root}/lib/libtorch_cuda.so\",--pop-state"
    ${root}/lib/libc10_cuda.so ${runtime})
  ikebana_cuda_includes(${root} includes)
  target_include_directories(ikebana::libtorch SYSTEM INTERFACE ${includes})
  target_compile_definitions(ikebana::libtorch INTERFACE USE_C10D_NCCL)
  get_filename_component(runtime ${runtime} DIRECTORY)
  target_link_options(ikebana::libtorch INTERFACE LINKER:-rpath,${runtime})
  set(${result} "with CUDA" PARENT_SCOPE)
endfunction()

function(ikebana_add_libtorch root result)
  add_library(ikebana::libtorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(ikebana::libtorch SYSTEM INTERFACE
    ${root}/include ${root}/include/torch/csrc/api/include)
  target_compile_definitions(ikebana::libtorch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  target_link_libraries(ikebana::libtorch INTERFACE
    ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
  target_link_options(ikebana::libtorch INTERFACE LINKER:-rpath,${root}/lib)
  ikebana_add_cuda(${root} cuda)
  set(${result} ${cuda} PARENT_SCOPE)
endfunction()

function(ikebana_provide_libtorch refusal)
  foreach(name IN ITEMS root version sentence)  # the names of whoever includes this are kept
    set(${name})
  endforeach()
  if(TARGET torch)
    set(version ${Torch_VERSION})
    set(where "of the find_package(Torch) called before")
  else()
    ikebana_find_libtorch(root sentence)
    if(root)
      ikebana_libtorch_version(${root} version)
      set(where "in ${root}")
    endif()
  endif()
  if((root OR version) AND version VERSION_LESS 2.8)
    set(sentence "ikebana: LibTorch ${version} ${where} is too old: use 2.8 or newer.")
  endif()
  if(sentence)
    set(${refusal} ${sentence} PARENT_SCOPE)
    return()
  endif()
  if(TARGET torch)
    add_library(ikebana::libtorch INTERFACE IMPORTED GLOBAL)
    set(libraries torch ${TORCH_LIBRARIES})
    list(REMOVE_DUPLICATES libraries)
    target_link_libraries(ikebana::libtorch INTERFACE ${libraries})
    set(found "LibTorch ${where}")
  else()
    ikebana_add_libtorch(${root} cuda)
    set(found "LibTorch ${version}, ${cuda}, ${where}")
  endif()
  set(ikebana_LIBTORCH_VERSION ${version} PARENT_SCOPE)
  if(NOT ikebana_FIND_QUIETLY)
    message(STATUS "ikebana: ${found}")
  endif()
endfunction()
ikebana_provide_libtorch(ikebana_NOT_FOUND_MESSAGE)
