#pragma once
// Includes the headers of LibTorch that only bodies need, besides detail/torch.hpp.
#include <ikebana/detail/torch.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <ATen/autocast_mode.h>
#include <ATen/native/ConvUtils.h>
#include <c10/core/CPUAllocator.h>
#include <torch/nn/modules/dropout.h>
// The following has oneDNN's errors, if the wheel has its headers.
#if __has_include(<oneapi/dnnl/dnnl_common.hpp>)
#include <oneapi/dnnl/dnnl_common.hpp>
#endif

#include <ikebana/detail/macros_back.inc>
