#pragma once
// Defines the run by which a model is recorded, and how a model is called with an example.
#include <ikebana/batch/input_and_target.hpp>
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/export/program_json.hpp>
#include <ikebana/program/export/recorder.hpp>
#include <ikebana/run/runner.hpp>

namespace ikebana::detail::exported {

/// Runs a unit as `plain` does, and reports the unit to the recorder.
struct ExportRun {
  bool evaluating = true;

  template <class Holder, class... Args>
  auto operator()(Holder&& holder, Args&&... args) const {
    using Module = std::remove_cvref_t<Holder>;
    const RunningModule running(module_address(holder));
    if constexpr (std::is_same_v<units_of_t<Module>, Children>)
      return run_units(*this, holder, std::forward<Args>(args)...);
    else return call_forward(holder, *this, std::forward<Args>(args)...);
  }
};

/// True if the model's forward takes these values.
template <class Model, class... Given>
inline constexpr bool takes = requires(const ExportRun& run, Model& model, const Given&... given) {
  model->forward(run, given...);
} || requires(const ExportRun& run, Model& model, const Given&... given) {
  model.forward(run, given...);
} || requires(Model& model, const Given&... given) {
  model->forward(given...);
} || requires(Model& model, const Given&... given) { model.forward(given...); };
template <class Model, class... Given>
  requires(std::is_same_v<units_of_t<Model>, Children> ||
           std::is_same_v<Model, torch::nn::AnyModule>)
inline constexpr bool takes<Model, Given...> = (std::is_same_v<Given, at::Tensor> && ...);

template <class Model, class Tuple>
inline constexpr bool takes_elements = false;
template <class Model, class... Each>
inline constexpr bool takes_elements<Model, std::tuple<Each...>> = takes<Model, Each...>;
template <class Model, class A, class B>
inline constexpr bool takes_elements<Model, std::pair<A, B>> = takes<Model, A, B>;

template <class Model, class Example>
consteval bool takes_input() {
  if constexpr (has_input_and_target<Example> && !holds_more<Example>)
    return takes<Model, std::decay_t<decltype(input_of(std::declval<const Example&>()))>>;
  else return false;
}

/// Returns the values that the model's forward is given for an example, as a tuple: the example
/// itself, a batch's input, or the elements of a tuple.
template <class Model, class Example>
auto arguments_of(const Example& example) {
  if constexpr (takes<Model, Example>) return std::tuple<Example>(example);
  else if constexpr (takes_input<Model, Example>())
    return std::tuple<std::decay_t<decltype(input_of(example))>>(input_of(example));
  else if constexpr (takes_elements<Model, Example>)
    return std::apply([](const auto&... each) { return std::tuple(each...); }, example);
  else
    static_assert(
        takes<Model, Example>,
        "ikebana: `export_program` is given an example that the model's `forward` does "
        "not take: neither as it is, nor its input, nor its elements. Give what `forward` "
        "takes besides `run`: a tensor, a struct, or a std::tuple of several.");
}

/// Returns the inputs of a program. The inputs of a map or a struct have their names, and others
/// have a position: `input`, or `input_0` and `input_1`.
template <class... Each>
ProgramInputs inputs_of(const std::tuple<Each...>& arguments) {
  ProgramInputs inputs;
  inputs.named.kind = Nested::Kind::Dict;
  std::apply([&](const auto&... each) { (inputs.named.children.push_back(nested_of(each)), ...); },
             arguments);
  auto& children = inputs.named.children;
  if (children.size() == 1 && children[0].kind != Nested::Kind::Tensor) {
    inputs.by_name = children[0].kind == Nested::Kind::Dict;
    const Nested only = std::move(children[0]);
    inputs.named.keys = only.keys, children = only.children;
  }
  if (!inputs.by_name) inputs.named.keys.clear();
  if (!inputs.by_name && children.size() == 1) inputs.named.keys = {"input"};
  for (std::size_t i = inputs.named.keys.size(); i < children.size(); ++i)
    inputs.named.keys.push_back("input_" + std::to_string(i));
  return inputs;
}

/// A model's forward, which takes the tensors of its arguments and returns its result.
using Forward = std::function<Nested(const std::vector<at::Tensor>&)>;

/// Returns the forward of a model for such arguments. It applies `prepare` to each argument before.
template <class Model, class Prepare, class... Each>
Forward forward_of(Model& model, const std::tuple<Each...>& arguments, const Prepare& prepare) {
  return [&model, arguments, prepare](const std::vector<at::Tensor>& tensors) {
    auto given = arguments;
    std::size_t next = 0;
    for_each_tensor(given, [&](at::Tensor& t) {
      if (t.defined()) t = tensors.at(next++);
    });
    return std::apply(
        [&](const auto&... each) { return nested_of(ExportRun{}(model, prepare(each)...)); },
        std::as_const(given));
  };
}

}  // namespace ikebana::detail::exported
