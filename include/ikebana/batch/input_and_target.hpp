#pragma once
// Finds the input of a model's forward in a batch, and the target with which an objective compares
// the output.
#include <ikebana/batch/kinds.hpp>
#include <ikebana/batch/ragged.hpp>
#include <ikebana/error.hpp>
#include <span>

namespace ikebana::detail {

// The names of fields of a struct, and of entries of a map.
inline constexpr std::array<std::string_view, 5> input_names = {"input", "data", "x", "input_ids",
                                                                "pixel_values"};
inline constexpr std::array<std::string_view, 4> target_names = {"target", "y", "label", "labels"};
using Names = std::span<const std::string_view>;

/// A map from names to tensors.
template <class T>
concept MapOfTensors = Map<T> && requires(T& map) {
  requires Text<std::remove_cvref_t<decltype(name_of(*std::ranges::begin(map)))>>;
  requires std::is_same_v<std::remove_cvref_t<decltype(value_of(*std::ranges::begin(map)))>,
                          at::Tensor>;
};

bool is_among(std::string_view name, Names names);
/// Returns the one entry that has one of these names. Throws BadBatch if no entry or several have
/// one.
template <MapOfTensors M>
const at::Tensor& only_entry(const M& map, Names names) {
  const at::Tensor* found = nullptr;
  std::size_t count = 0;
  for (const auto& entry : map)
    if (is_among(name_of(entry), names)) found = &value_of(entry), ++count;
  if (count == 1) return *found;
  std::string list;
  for (std::string_view name : names)
    list += (list.empty() ? "`" : ", `") + std::string(name) + "`";
  throw BadBatch("batch: it holds " + std::string(count == 0 ? "none" : "several") + " of " + list +
                 " (" + tensors_text(map) +
                 "). Give it one of them, or write the objective as a "
                 "lambda (run, model, batch) -> Loss.");
}
/// Throws BadBatch for an entry that is neither input nor target, such as a mask: an objective that
/// gives the model only its input would ignore it.
template <MapOfTensors M>
void refuse_others(const M& map) {
  for (const auto& entry : map)
    if (!is_among(name_of(entry), input_names) && !is_among(name_of(entry), target_names))
      throw BadBatch("batch: the objective would ignore its `" + std::string(name_of(entry)) +
                     "`, since it takes one input and one target (" + tensors_text(map) +
                     "). Erase it, or write the objective as a lambda (run, model, batch) -> "
                     "Loss that uses it.");
}
const at::Tensor& one_of_two(const std::vector<at::Tensor>& batch, std::size_t i);

template <class T, std::size_t I>
concept HasElement = requires { requires(std::tuple_size<T>::value > I); };

template <class Batch>
decltype(auto) input_of(const Batch& batch) {
  if constexpr (std::is_same_v<Batch, std::vector<at::Tensor>>) return one_of_two(batch, 0);
  else if constexpr (MapOfTensors<const Batch>)
    return refuse_others(batch), only_entry(batch, input_names);
  else if constexpr (requires { batch.input; }) return (batch.input);
  else if constexpr (requires { batch.data; }) return (batch.data);
  else if constexpr (requires { batch.x; }) return (batch.x);
  else if constexpr (requires { batch.input_ids; }) return (batch.input_ids);
  else if constexpr (requires { batch.pixel_values; }) return (batch.pixel_values);
  else if constexpr (HasElement<Batch, 0>) return std::get<0>(batch);
}
template <class Batch>
decltype(auto) target_of(const Batch& batch) {
  if constexpr (std::is_same_v<Batch, std::vector<at::Tensor>>) return one_of_two(batch, 1);
  else if constexpr (MapOfTensors<const Batch>) return only_entry(batch, target_names);
  else if constexpr (requires { batch.target; }) return (batch.target);
  else if constexpr (requires { batch.y; }) return (batch.y);
  else if constexpr (requires { batch.label; }) return (batch.label);
  else if constexpr (requires { batch.labels; }) return (batch.labels);
  else if constexpr (HasElement<Batch, 1>) return std::get<1>(batch);
}
/// Returns the tensor with which an objective and a metric compute: a tensor itself, or the rows of
/// all samples of a Ragged.
inline const at::Tensor& joined(const at::Tensor& t) { return t; }
inline const at::Tensor& joined(const Ragged& ragged) { return ragged.values(); }
/// Returns class indices as Long. In a narrower dtype, such as Byte, an `ignore_index` of -100
/// would be compared as 156, and indexing weights by Byte would use it as a mask.
at::Tensor as_classes(const at::Tensor& target);

template <class Batch>
inline constexpr bool has_input_and_target = requires(const Batch& batch) {
  requires !std::is_void_v<decltype(input_of(batch))>;
  joined(target_of(batch));
};

/// Returns the number of fields of a struct that hold tensors. For other types 0, because a tuple,
/// a map and a list are checked in their own way.
template <class Batch>
consteval std::size_t fields_with_tensors() {
  if constexpr (Fields<Batch> && !HasElement<Batch, 0> && !Map<const Batch> &&
                !Range<const Batch>) {
    constexpr auto count = [](const auto&... fields) {
      return std::integral_constant<std::size_t,
                                    (std::size_t{0} + ... +
                                     may_hold_tensors<std::remove_cvref_t<decltype(fields)>>)>();
    };
    return decltype(with_fields(std::declval<const Batch&>(), count))::value;
  } else {
    return 0;
  }
}

/// A tuple or an array of more than two elements. The third and later elements would be ignored.
template <class Batch>
inline constexpr bool holds_more = HasElement<Batch, 2>;

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/batch/impl/input_and_target.ipp>
#endif
