#pragma once
// Checks of the built-in objectives: that the model has a `forward` which takes the batch's input,
// and that its output fits the target.
#include <ikebana/hooks.hpp>
#include <ikebana/run/runner.hpp>

namespace ikebana::detail {

/// Returns the compile-time error for a model that cannot be called with this input.
template <class Run, class Model, class Input>
consteval auto input_refusal() {
  using Units = units_of_t<Model>;
  constexpr bool takes_input =
      requires(Model& model, const Input& input) { model->forward(input); };
  if constexpr (passes_run_on<Run, Model, const Input&>) return refuse::is<refuse::Nothing>{};
  else if constexpr (!takes_input)
    return refuse::is<refuse::ForwardTakesOtherArguments<impl_of_t<Model>, Input>>{};
  else if constexpr (!std::is_void_v<Units>)
    return refuse::is<refuse::ForwardWithoutRun<impl_of_t<Model>>>{};
  else return refuse::is<refuse::Nothing>{};
}
/// Returns the compile-time error for a model that cannot be called with this batch's input, and
/// for a batch with more tensors than the objective uses, which takes `taken` fields with tensors.
template <class Run, class Model, class Batch, std::size_t taken = 2>
consteval auto forward_refusal() {
  if constexpr (Map<const Batch> && !MapOfTensors<const Batch>)
    return refuse::is<refuse::MapOfOthers<Batch>>{};
  else if constexpr (!has_input_and_target<Batch>)
    return refuse::is<refuse::NoInputOrTarget<Batch>>{};
  else if constexpr (holds_more<Batch>) return refuse::is<refuse::MoreThanInputAndTarget<Batch>>{};
  else if constexpr (fields_with_tensors<Batch>() > taken)
    return refuse::is<refuse::IgnoredFields<Batch>>{};
  else
    return input_refusal<Run, Model,
                         std::decay_t<decltype(input_of(std::declval<const Batch&>()))>>();
}

/// True for a class whose `count` takes these arguments.
template <class T, class... Args>
concept counts = requires(T& t, Args... args) { t.count(args...); };
/// Returns the compile-time error for a member function `count` that takes other arguments, which
/// no step would call. A `count` without parameters is something else.
template <class T, class Batch>
consteval auto other_count_refusal() {
  if constexpr (requires { &T::count; }) {
    using Member = decltype(&T::count);
    constexpr bool is_function = std::is_function_v<std::remove_pointer_t<Member>>;  // a static one
    if constexpr ((std::is_member_function_pointer_v<Member> && !std::is_invocable_v<Member, T&>) ||
                  (is_function && !std::is_invocable_v<Member>))
      return refuse::is<refuse::CountTakesOtherArguments<T, Batch>>{};
    else return refuse::is<refuse::Nothing>{};
  } else {
    return refuse::is<refuse::Nothing>{};
  }
}

/// Throws BadBatch if an output and its target differ in shape.
void check_same_shape(const char* name, const at::Tensor& output, const at::Tensor& target);
/// Does what `check_same_shape` does, and also throws BadBatch if the target has an integer dtype,
/// for which some losses have no gradient.
void check_numbers(const char* name, const at::Tensor& output, const at::Tensor& target);
/// Does what `check_same_shape` does, and also throws BadBatch if the target has no floating-point
/// dtype.
void check_probabilities(const char* name, const at::Tensor& output, const at::Tensor& target);
/// Throws BadBatch if the samples of an output have other lengths than the samples of the target:
/// the joined rows could be as many.
void check_same_lengths(const std::string& name, const Ragged& output, const Ragged& target);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/forward.ipp>
#endif
