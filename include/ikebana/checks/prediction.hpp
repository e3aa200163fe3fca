#pragma once
// Checks what `predict` is given, and finds out what it does with it.
#include <ikebana/checks/loss.hpp>
#include <ikebana/evaluate/predict.hpp>

namespace ikebana::detail {

/// Returns true if the model's `forward` takes these values as they are, so that policies see its
/// units. The children of a Sequential are templates, which take anything, so they count only for
/// tensors.
template <class Run, class Model, class... Given>
consteval bool forward_takes() {
  if constexpr (std::is_same_v<units_of_t<Model>, Children>)
    return (std::is_same_v<Given, at::Tensor> && ...);
  else if constexpr (passes_run_on<Run, Model, const Given&...>) return true;
  else if constexpr (std::is_void_v<units_of_t<Model>>)
    return requires(Model& model, const Given&... given) { model->forward(given...); };
  else return false;
}
/// Returns true if it would take them with a `run`, without which policies cannot see the model's
/// units.
template <class Model, class... Given>
consteval bool forward_lacks_run() {
  if constexpr (std::is_void_v<units_of_t<Model>> || std::is_same_v<units_of_t<Model>, Children> ||
                (std::is_void_v<Given> || ...))
    return false;
  else return requires(Model& model, const Given&... given) { model->forward(given...); };
}
/// The type of a batch's input, which may be all of it; `void` if it has other fields.
template <class Batch>
struct input_type {
  using type = void;
};
template <>
struct input_type<TensorAlone> {
  using type = at::Tensor;
};
template <class Batch>
  requires(has_input_and_target<Batch> && !holds_more<Batch>)
struct input_type<Batch> {
  using type = std::decay_t<decltype(input_of(std::declval<const Batch&>()))>;
};

/// A range of batches, also behind a pointer, as opposed to one batch.
template <class T>
concept LoaderOfBatches = !Text<T> && !Map<T> && !ListOfTensors<T> &&
                          requires(T& loader) { *std::begin(range_of(loader)); };

template <class Core, class Given>
consteval PredictBy prediction_of_one() {
  using Model = handle_of_t<typename Core::Model>;
  using Run = ikebana::Run<Core>;
  using Input = typename input_type<Given>::type;
  if constexpr (forward_takes<Run, Model, Given>()) return PredictBy::Forward;
  else if constexpr (std::is_void_v<Input>) {
    if constexpr (loss_takes<Core, Given>) return PredictBy::Outputs;
    else return PredictBy::Unknown;
  } else if constexpr (forward_takes<Run, Model, Input>()) return PredictBy::Input;
  else if constexpr (loss_takes<Core, Given>) return PredictBy::Outputs;
  else return PredictBy::Unknown;
}
/// Says what is done with each batch of a loader; `Unknown` if the value is no loader.
template <class Core, class... Given>
inline constexpr PredictBy prediction_of_each = PredictBy::Unknown;
template <class Core, LoaderOfBatches Given>
inline constexpr PredictBy prediction_of_each<Core, Given> =
    prediction_of_one<Core, batch_of_t<Given>>();

template <class Core, class... Given>
consteval PredictBy prediction_of() {
  using Model = handle_of_t<typename Core::Model>;
  if constexpr (sizeof...(Given) != 1)
    return sizeof...(Given) > 1 && forward_takes<ikebana::Run<Core>, Model, Given...>()
               ? PredictBy::Forward
               : PredictBy::Unknown;
  else if constexpr (prediction_of_one<Core, Given...>() != PredictBy::Unknown)
    return prediction_of_one<Core, Given...>();
  else
    return prediction_of_each<Core, Given...> == PredictBy::Unknown ? PredictBy::Unknown
                                                                    : PredictBy::Loader;
}
template <class Core, class... Given>
consteval auto predict_diagnosis() {
  using Model = handle_of_t<typename Core::Model>;
  if constexpr ((any_inside<HidesTensors, Given>() || ...))
    return refuse::is<refuse::TensorsOutOfSight<std::tuple<Given...>>>{};
  else if constexpr (((RefersToTensors<Given>::value) || ...))
    return refuse::is<refuse::TensorsOfOthers<std::tuple<Given...>>>{};
  else if constexpr (prediction_of<Core, Given...>() != PredictBy::Unknown)
    return refuse::is<refuse::Nothing>{};
  else if constexpr (forward_lacks_run<Model, Given...>() ||
                     forward_lacks_run<Model, typename input_type<Given>::type...>())
    return refuse::is<refuse::ForwardWithoutRun<impl_of_t<Model>>>{};
  else return refuse::is<refuse::NothingToPredict<impl_of_t<Model>, Given...>>{};
}
/// Says why `predict` cannot be given these values; `refuse::Nothing` if it can.
template <class Core, class... Given>
using predict_diagnosis_t = typename decltype(predict_diagnosis<Core, Given...>())::type;

/// Computes the result of `Trainer::predict`.
template <class Core, class... Given>
auto predict_given(Core& core, Given&... given) {
  using std::remove_const_t;
  return predict_as<prediction_of<Core, remove_const_t<Given>...>(),
                    prediction_of_each<Core, remove_const_t<Given>...>>(core, given...);
}

}  // namespace ikebana::detail
