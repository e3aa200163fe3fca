#pragma once
// Converts between one-element tensors and numbers.
#include <ikebana/detail/recording.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana {

/// Returns whether the host may read and write the elements of a tensor: on a CPU, unless a step is
/// recorded. While this thread computes without values, it may do so only for a tensor of one
/// element. Ask it before `item` or `data_ptr` in a hook, and use operators if the answer is no.
bool readable(const at::Tensor& t);

namespace detail {

using ikebana::readable;

/// Returns whether the host computes with the memory of a tensor: on a CPU, unless a step is
/// recorded.
inline bool on_host(const at::Tensor& t) { return t.device().is_cpu() && !recording(); }

/// Returns the value of a one-element tensor on the CPU. Dispatches no operator for a Float, Long
/// or Double.
double number_on_host(const at::Tensor& t);
/// Returns the value of a one-element tensor. Waits for its device. While a step is recorded, the
/// read is an operator, so that a recording sees it.
double number(const at::Tensor& t);

/// Returns whether a dtype can hold a number: it is finite in the dtype, and 0 there only if it is
/// 0.
bool fits(double number, at::ScalarType type);

/// Makes a tensor without dimensions from a number. Dispatches no operator on the CPU, except while
/// a step is recorded.
at::Tensor scalar(double number, at::ScalarType type, c10::Device device);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/number.ipp>
#endif
