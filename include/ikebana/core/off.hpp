#pragma once
// Defines the null choices, which are policies that leave everything as it is. A step that calls
// the hooks of all mechanisms leaves out theirs, so they cost no time and hardly any compile time.
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
/// Tensors lie in memory as the model and the batches have them.
template <>
struct Layout<Off> {};
/// Parameters, gradients and optimizer state stay on the device that computes.
template <>
struct Offload<Off> {};
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
struct Mechanism<Policy> : HooksOf<axis_of_t<Policy>> {
  using null_mechanism = Mechanism;
  using carries_out = Policy;
  Policy values;
  explicit Mechanism(Policy v) : values(v) {}
};

namespace detail {

/// True for the mechanism of a null choice, and false for one that derives from it.
template <class M>
inline constexpr bool is_null_mechanism = false;
template <class M>
  requires std::is_same_v<typename M::null_mechanism, M>
inline constexpr bool is_null_mechanism<M> = true;

}  // namespace detail
}  // namespace ikebana
