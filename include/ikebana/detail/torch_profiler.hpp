#pragma once
// Includes LibTorch's profiler and the numbers of autograd's nodes, which only bodies of the
// profiler need, and NVTX if the compiler finds it.
#include <ikebana/detail/torch.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/Logging.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/standalone/execution_trace_observer.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define IKEBANA_HAS_NVTX
#endif

#include <ikebana/detail/macros_back.inc>
