# Defines the target ikebana_cuda for programs that include headers of c10/cuda: CUDA's headers and
# the libraries c10_cuda and cudart, which the CPU-only install has, too. There such a program
# compiles, links and runs, and finds no device. Headers of ATen/cuda need libraries that only an
# install with CUDA has: ATen/cuda/CUDAContext.h and CUDAEvent.h do not compile in the CPU-only one,
# and what uses ATen/cuda/CUDAGraph.h does not link.
# If the headers are missing, there is no such target, and ikebana_cuda_refusal says why.
option(IKEBANA_REQUIRE_CUDA_HEADERS "Missing CUDA headers are an error" OFF)

function(ikebana_provide_cuda refusal)
  set(sentence "CUDA's headers were not found beside LibTorch: run `scripts/setup test`, or \
`pip install nvidia-cuda-crt nvidia-cuda-cccl` beside torch, or put a toolkit's nvcc on PATH.")
  set(${refusal} ${sentence} PARENT_SCOPE)
  get_target_property(root ikebana::libtorch INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT root)
    return()
  endif()
  list(GET root 0 root)
  cmake_path(GET root PARENT_PATH root)
  ikebana_cuda_runtime(${root} runtime)
  ikebana_cuda_includes(${root} includes)
  if(NOT EXISTS ${root}/lib/libc10_cuda.so OR NOT runtime)
    return()
  endif()
  foreach(header IN ITEMS cuda_runtime_api.h crt/host_config.h nv/target)
    find_file(found ${header} PATHS ${includes} NO_DEFAULT_PATH NO_CACHE)
    if(NOT found)
      return()
    endif()
    unset(found)
  endforeach()
  add_library(ikebana_cuda INTERFACE)
  target_include_directories(ikebana_cuda SYSTEM INTERFACE ${includes})
  target_link_libraries(ikebana_cuda INTERFACE ${root}/lib/libc10_cuda.so ${runtime})
  cmake_path(GET runtime PARENT_PATH runtime)
  target_link_options(ikebana_cuda INTERFACE LINKER:-rpath,${runtime})
  set(${refusal} "" PARENT_SCOPE)
endfunction()

if(NOT TARGET ikebana_cuda)
  ikebana_provide_cuda(ikebana_cuda_refusal)
  if(ikebana_cuda_refusal AND IKEBANA_REQUIRE_CUDA_HEADERS)
    message(FATAL_ERROR "ikebana: ${ikebana_cuda_refusal}")
  endif()
endif()
