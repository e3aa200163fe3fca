#pragma once
// The null choices: policies that leave everything as it is. Their mechanism is hooks.hpp's
// defaults, so they cost nothing.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Every step is dispatched operator by operator.
template <>
struct Capture<Off> {};
/// Every activation that backward needs is kept.
template <>
struct Checkpoint<Off> {};
/// Every parameter that requires a gradient gets one.
template <>
struct Freeze<Off> {};
/// Parameters, gradients and optimizer state stay on the device that computes.
template <>
struct Offload<Off> {};
/// No weight is masked.
template <>
struct Prune<Off> {};
/// Weights have the dtypes that Precision gives them.
template <>
struct Quantize<Off> {};
/// One rank: it holds the whole model, and its sums are the totals.
template <>
struct Shard<Off> {};
/// The null choice of an axis whose policies take no template parameter: clip, average, device.
template <class Axis>
struct Without {};

namespace detail {

template <class Policy>
inline constexpr bool is_null = false;
template <template <class...> class Template>
inline constexpr bool is_null<Template<Off>> = true;
template <class Axis>
inline constexpr bool is_null<Without<Axis>> = true;

}  // namespace detail

template <class Policy>
  requires detail::is_null<Policy>
struct Mechanism<Policy> : Hooks {
  Policy values;
  explicit Mechanism(Policy v) : values(v) {}
};

}  // namespace ikebana
