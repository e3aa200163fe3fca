#pragma once
// Includes LibTorch's process groups (c10d). They are apart from torch.hpp, because only policies
// on shard need them. LibTorch's wheel has Gloo without Gloo's headers. The folder
// ikebana/shard/gloo declares the names that ProcessGroupGloo.hpp uses; CMake's target adds this
// folder to the include paths.
#include <ikebana/detail/torch.hpp>

#if !__has_include(<gloo/algorithm.h>)
#error \
    "ikebana: compile with -I <folder of ikebana>/shard/gloo, too: LibTorch has no headers of Gloo"
#endif

#include <ikebana/detail/macros_aside.inc>

#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#define IKEBANA_DEFINED_USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef IKEBANA_DEFINED_USE_C10D_GLOO
#undef USE_C10D_GLOO
#undef IKEBANA_DEFINED_USE_C10D_GLOO
#endif
// The following has NCCL, if CUDA's headers and NCCL's are found.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include <ikebana/detail/macros_back.inc>
