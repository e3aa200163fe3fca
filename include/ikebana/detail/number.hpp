#pragma once
// One-element tensors as numbers.
#include <ikebana/detail/recording.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// True where the host computes with the memory of a tensor: on a CPU, unless a step is recorded.
inline bool on_host(const at::Tensor& t) { return t.device().is_cpu() && !recording(); }
/// True where the host may also read and write its elements. While this thread computes without
/// values, those of a tensor of one element alone.
bool readable(const at::Tensor& t);

/// The value of a one-element tensor on the CPU. Dispatches no operator for a Float, Long or
/// Double.
double number_on_host(const at::Tensor& t);
/// The value of a one-element tensor. Waits for its device. While a step is recorded the read is an
/// operator, so that a recording sees it.
double number(const at::Tensor& t);

/// True where a number is neither infinite nor, unless it is, 0 in a dtype.
bool fits(double number, at::ScalarType type);

/// A number as a tensor without dimensions. Dispatches no operator on the CPU, except while a step
/// is recorded.
at::Tensor scalar(double number, at::ScalarType type, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/number.ipp>
#endif
