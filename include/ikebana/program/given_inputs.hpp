#pragma once
// Splits what the forward of a program is given into its tensors and numbers, with their names.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/program/input_check.hpp>

namespace ikebana::detail::pt2 {

template <class T>
using IsNumber = std::bool_constant<std::is_arithmetic_v<T> && !std::is_same_v<T, char>>;
/// True if values of this type may hold numbers. The characters of a text are not numbers.
template <class T>
inline constexpr bool may_hold_numbers = any_inside<IsNumber, T>();

/// True if a program may be given the type: tensors, or a number.
template <class T>
inline constexpr bool holds_program_inputs = may_hold_tensors<T> || std::is_arithmetic_v<T>;

/// Returns a name in the form that programs use: `["left"]` is `.left`, `<0>` is `[0]`. Returns an
/// empty text for a position.
std::string program_name(const std::string& path);

/// Calls `f(value, path)` for the tensors and the numbers inside of a value.
template <class T, class F>
void for_each_program_input(const T& value, const std::string& path, F&& f) {
  if constexpr (std::is_same_v<T, at::Tensor>) f(c10::IValue(value), path);
  else if constexpr (std::is_same_v<T, bool>) f(c10::IValue(value), path);
  else if constexpr (std::is_integral_v<T>) f(c10::IValue(static_cast<std::int64_t>(value)), path);
  else if constexpr (std::is_floating_point_v<T>) f(c10::IValue(static_cast<double>(value)), path);
  else if constexpr (std::is_same_v<T, torch::nn::AnyValue>)
    for_each_tensor(value, [&](const at::Tensor& tensor) { f(c10::IValue(tensor), path); });
  else if constexpr (may_hold_tensors<T> || may_hold_numbers<T>)
    for_each_part(value, [&](const auto& part, auto&& name) {
      for_each_program_input(part, path_of_part(path, name()), f);
    });
}

/// Adds what one argument of `forward` holds. Names count only if it is the only argument.
template <class T>
void add_program_inputs(const T& value, bool only, std::vector<GivenInput>& into) {
  for_each_program_input(value, "", [&](c10::IValue one, const std::string& path) {
    into.push_back({only ? program_name(path) : std::string(), std::move(one)});
  });
}

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/given_inputs.ipp>
#endif
