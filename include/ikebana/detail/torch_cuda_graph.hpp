#pragma once
// Includes LibTorch's graphs of CUDA, which need CUDA's headers, and a LibTorch with CUDA to link.
// Without them IKEBANA_HAS_CUDA_GRAPH is 0.
#include <ikebana/detail/torch.hpp>

// USE_C10D_NCCL says that LibTorch's libraries for CUDA are linked.
#if defined(USE_C10D_NCCL) && __has_include(<cuda_runtime_api.h>)
#define IKEBANA_HAS_CUDA_GRAPH 1
#include <ikebana/detail/macros_aside.inc>

#include <ATen/cuda/CUDAGraph.h>

#include <ikebana/detail/macros_back.inc>
#else
#define IKEBANA_HAS_CUDA_GRAPH 0
#endif
