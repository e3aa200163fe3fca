#pragma once
// Defines `predict`, which computes the output of a model for a batch or an input, without
// training.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/dummy.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/ranks/together.hpp>

namespace ikebana::detail {

/// The way in which `predict` uses its arguments: it calls `forward` with them, or with a batch's
/// input, takes the outputs of the loss, does so with each batch of a loader, or refuses them.
enum class PredictBy { Forward, Input, Outputs, Loader, Unknown };

/// Copies a result that shares memory with the model, because parameters and buffers change in
/// later steps, and at once if weights are averaged or gathered.
template <class Result>
Result unshared(Result result, const torch::nn::Module& model) {
  if constexpr (may_hold_tensors<Result>) {
    auto is_of_model = [&](const at::Tensor& t) {
      auto shares = [&](const at::Tensor& own) { return own.defined() && same_storage(own, t); };
      const auto parameters = model.parameters(), buffers = model.buffers();
      return std::any_of(parameters.begin(), parameters.end(), shares) ||
             std::any_of(buffers.begin(), buffers.end(), shares);
    };
    for_each_tensor(result, [&](at::Tensor& t) {
      if (t.defined() && is_of_model(t)) t = t.clone();
    });
  }
  return result;
}

/// Returns the outputs of the loss of one batch. Throws BadModel if the loss returns no outputs.
template <class Core, class Batch>
at::Tensor outputs_of_loss(Core& core, Run<Core>& run, const Batch& batch) {
  Loss loss = core.loss(run, batch);
  if (!loss.outputs.defined())
    throw BadModel(
        "predict: the loss gave no outputs. Return Loss{sum, count, outputs}, or give the model a "
        "`forward` that takes the batch's input.");
  return std::move(loss.outputs);
}

/// Makes one prediction, from values that are on the device.
template <PredictBy kind, class Core, class... Given>
auto predict_placed(Core& core, const Given&... given) {
  Run<Core> run(core, /*evaluating=*/true);
  auto& model = *core.units.units()[0].module;
  if constexpr (kind == PredictBy::Outputs) {
    return unshared(outputs_of_loss(core, run, given...), model);
  } else {
    return core.around_forward(std::tie(given...), [&] {
      if constexpr (kind == PredictBy::Forward) return unshared(run(core.model, given...), model);
      else return unshared(run(core.model, input_of(given)...), model);
    });
  }
}
template <PredictBy kind, class Core, class... Given>
auto predict_rows(Core& core, const Given&... given) {
  Placement placement(core.device);
  return predict_placed<kind>(
      core, placement.place(core.mechanisms.device, core.mechanisms.layout, given)...);
}
/// Makes a prediction for a batch without rows, which a rank has if there are fewer rows than
/// ranks: computes a row of zeros, and removes that row from the result, because a model need not
/// compute without rows.
template <PredictBy kind, class Core, class... Given>
auto predict_one(Core& core, const Given&... given) {
  if constexpr (!Core::one_rank && (kind == PredictBy::Input || kind == PredictBy::Outputs)) {
    if (may_have_no_rows(core) && (has_no_rows(given) && ...)) {
      auto result = predict_rows<kind>(core, zero_row(given)...);
      if constexpr (may_hold_tensors<decltype(result)>)
        for_each_tensor(result, [](at::Tensor& t) {
          if (t.defined() && t.dim() > 0 && t.size(0) == 1) t = t.narrow(0, 0, 0);
        });
      return result;
    }
  }
  return predict_rows<kind>(core, given...);
}

/// Calls `f` with the model as it is evaluated. If parameters are cut, the ranks that share them
/// call forward together, so all ranks meet before it and at its end.
template <class Core, class F>
auto as_evaluated(Core& core, const F& f) {
  auto evaluated = [&] {
    core.check_model();
    const c10::InferenceMode no_inference(false);  // what a model keeps is used in later steps
    const at::NoGradGuard no_grad;
    const EvaluationMode mode(*module_of(core.model));
    return core.around_evaluation(f);
  };
  if constexpr (!Core::one_rank)
    if (core.ranks().slices().size() > 1) return together(core, "predict", evaluated);
  return evaluated();
}

/// Returns the model's output for `given`. For a loader, `each` is the way in which each batch is
/// used.
template <PredictBy kind, PredictBy each, class Core, class... Given>
auto predict_as(Core& core, Given&... given) {
  if constexpr (kind != PredictBy::Loader) {
    return as_evaluated(core, [&] { return predict_one<kind>(core, given...); });
  } else {
    using Result = decltype(predict_one<each>(core, std::declval<const batch_of_t<Given>&>()...));
    std::vector<Result> results;
    as_evaluated(core, [&] {
      (visit(given, [&](const auto& batch) { results.push_back(predict_one<each>(core, batch)); }),
       ...);
    });
    return results;
  }
}

}  // namespace ikebana::detail
