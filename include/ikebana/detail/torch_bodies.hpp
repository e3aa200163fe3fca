#pragma once
// What bodies alone need of LibTorch, besides detail/torch.hpp.
#include <ikebana/detail/torch.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <ATen/autocast_mode.h>
#include <ATen/native/ConvUtils.h>
#include <c10/core/CPUAllocator.h>
// oneDNN's errors, where the wheel has its headers.
#if __has_include(<oneapi/dnnl/dnnl_common.hpp>)
#include <oneapi/dnnl/dnnl_common.hpp>
#endif

#include <ikebana/detail/macros_back.inc>
