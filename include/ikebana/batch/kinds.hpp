#pragma once
// Distinguishes one batch from a range of batches.
#include <array>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

template <class T>
struct IsListOfTensors : std::false_type {};
template <class Allocator>
struct IsListOfTensors<std::vector<at::Tensor, Allocator>> : std::true_type {};
template <std::size_t N>
struct IsListOfTensors<std::array<at::Tensor, N>> : std::true_type {};

/// A vector or an array of tensors. It is one batch, whose fields are the tensors.
template <class T>
concept ListOfTensors = IsListOfTensors<std::remove_cv_t<T>>::value;

/// A range of batches, as opposed to one batch.
template <class T>
concept Batches = std::ranges::range<T&> && !Text<T> && !Map<T> && !ListOfTensors<T> &&
                  !std::is_same_v<std::remove_cv_t<T>, at::Tensor>;

/// Several batches, each of which is one microbatch, even if a batch is a bare tensor.
template <class Batch>
struct Microbatches : std::vector<Batch> {};

/// LibTorch's holders of values by reference. A copy shares its contents, so they are not cut.
template <class T>
using HidesTensors = std::bool_constant<made_from<T, c10::Dict> || made_from<T, c10::List> ||
                                        std::is_same_v<T, c10::IValue>>;

template <class T>
inline constexpr bool has_reference_to_tensors = false;
template <class... Each>
inline constexpr bool has_reference_to_tensors<std::tuple<Each...>> =
    ((std::is_reference_v<Each> && may_hold_tensors<std::remove_cvref_t<Each>>) || ...);
template <class A, class B>
inline constexpr bool has_reference_to_tensors<std::pair<A, B>> =
    has_reference_to_tensors<std::tuple<A, B>>;

/// Spans, views and c10::ArrayRef. Const or not, they give access to elements of the same type.
template <class T>
concept SharesElements =
    Range<T> && Range<const T> &&
    std::is_same_v<std::ranges::range_reference_t<T&>, std::ranges::range_reference_t<const T&>>;

/// References to tensors that a value does not own. A change of a copy changes these tensors.
template <class T>
struct RefersToTensors : std::bool_constant<has_reference_to_tensors<T> ||
                                            (SharesElements<T> && may_hold_tensors<T>)> {};

/// A range of bare tensors that does not say whether it is one batch or several.
template <class T>
concept BareTensors = Batches<T> && !made_from<std::remove_cv_t<T>, Microbatches> &&
                      std::is_same_v<std::ranges::range_value_t<T&>, at::Tensor>;

}  // namespace ikebana::detail
