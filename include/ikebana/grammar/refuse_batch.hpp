#pragma once
// The refusals of batches: what could be one batch or several, and what is not seen or is no batch.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Written>
struct OneBatchOrSeveral {
  static_assert(possible<quoted<Written> + " could be one batch or several">,
                "ikebana: a range of bare tensors does not say whether it is one batch, with the "
                "tensors as its fields, or several. Write std::vector<at::Tensor> for one batch, "
                "with Ragged{tensors} as a field for samples of different lengths, and "
                "std::vector<std::tuple<at::Tensor>> for microbatches.");
};
template <class Written>
struct ListIsOneBatch {
  static_assert(possible<quoted<Written> + " is one batch, and the loss takes a tensor">,
                "ikebana: a vector or an array of tensors is one batch, whose fields they are, and "
                "the loss takes a single tensor. Write std::vector<std::tuple<at::Tensor>> for "
                "microbatches, Ragged{tensors} for samples of different lengths, or give the loss "
                "this batch: `loss(Run& run, const std::vector<at::Tensor>& fields)`.");
};
template <class Batch>
struct TensorsOutOfSight {
  static_assert(
      possible<quoted<Batch> + " holds a c10::Dict, c10::List or IValue">,
      "ikebana: the tensors of a batch must be seen, to be moved to a device and cut, and "
      "those in a c10::Dict, c10::List or IValue are not. Write std::map<std::string, "
      "at::Tensor>, std::vector<at::Tensor>, or a struct of tensors.");
};
template <class Batch>
struct TensorsOfOthers {
  static_assert(possible<quoted<Batch> + " refers to tensors that it does not own">,
                "ikebana: a batch is moved to the device and cut as a copy, and a copy of "
                "references, spans and views would change the tensors that they refer to. Write "
                "std::tuple{x, y} instead of std::tie(x, y), and std::vector<at::Tensor> instead "
                "of a span; copies of tensors share their memory, so this costs nothing.");
};
template <class Map>
struct MapOfOthers {
  static_assert(possible<quoted<Map> + " is not a map from names to tensors">,
                "ikebana: of a map a built-in objective takes the tensors that are named input and "
                "target (or data, x, input_ids, pixel_values; label, labels, y). Write "
                "std::map<std::string, at::Tensor>, or the objective as a lambda (run, model, "
                "batch) -> Loss.");
};
template <class... Parts>
struct BatchInParts {
  static_assert(possible<"step was given " + names_of<Parts...>>,
                "ikebana: a step takes one batch, or one range of batches. Write the parts of a "
                "batch as one value, step(std::tuple{x, y}) or step(Batch{.input = x, .target = "
                "y}), and several batches as a range: step(std::vector{first, second}).");
};
template <class Model, class... Given>
struct NothingToPredict {
  static_assert(possible<"predict cannot give " + quoted<Model> + " " + names_of<Given...>>,
                "ikebana: predict calls the model's `forward` with what it is given, or with the "
                "input of a batch that has an input and a target, or takes Loss::outputs of a "
                "batch that the loss takes, and none of these takes this. Give it what `forward` "
                "takes, a batch that the trainer is trained on, or a loader of either.");
};
template <class Objective, class Batch>
struct BatchLacksFields {
  static_assert(
      possible<quoted<Batch> + " lacks a field that " + quoted<Objective> + " takes">,
      "ikebana: the batch of this objective is a struct with fields of these names. CTCLoss takes "
      "`input`, `target`, `input_lengths` and `target_lengths`, or a Ragged `target`; "
      "TripletMarginLoss `anchor`, `positive` and `negative`; CosineEmbeddingLoss `input1`, "
      "`input2` and `target`. For another batch write the objective as a lambda (run, model, "
      "batch) -> Loss.");
};
template <class Batch>
struct IgnoredFields {
  static_assert(possible<quoted<Batch> + " holds more tensors than the objective takes">,
                "ikebana: a built-in objective takes the fields of its names, such as `input` and "
                "`target`, and would ignore the other tensors of this struct, e.g. a mask or a "
                "weight. Write the objective as a lambda (run, model, batch) -> Loss that uses "
                "them, or a struct without them.");
};
template <class Written>
struct NotALoader {
  static_assert(possible<quoted<Written> + " is no batch of a loader">,
                "ikebana: each element of a loader is one batch, and here it is a range of batches "
                "or an entry of a map. Give `fit` and `evaluate` a range of batches, e.g. a "
                "std::vector of maps; for updates of several batches write `batches_per_step`.");
};

}  // namespace ikebana::refuse
