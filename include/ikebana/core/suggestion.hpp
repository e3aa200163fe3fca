#pragma once
// Suggests what to do about an error of LibTorch, by phrases in its text.
#include <string>

namespace ikebana::detail {

struct Hint {
  const char* phrase;  ///< a phrase in the text of the error
  const char* text;    ///< the advice
};
inline constexpr const char* compare_shapes =
    "Compare the shapes in this text: those of the batch, of the inputs, and what the operator "
    "takes.";
/// The first hint whose phrase is found applies.
inline constexpr Hint hints[] = {
    {"a second time",
     "The loss uses a graph that an earlier backward has freed: detach what you carry from one "
     "step or microbatch to the next, as state = state.detach()."},
    {"modified by an inplace operation",
     "Backward needs the value that a tensor had before it was changed: write x = x + y for "
     "x += y, use the operator without a trailing underscore, or change a clone()."},
    {"device-side assert",
     "An index or a target was out of range on the device, which cannot be used any more by this "
     "process: run the batch on a CPU, which names the operation."},
    {"nference tensor",
     "A tensor of the batch, the model or the loss was made under c10::InferenceMode, which "
     "autograd cannot use: clone() it outside of that mode, or make it under at::NoGradGuard."},
    {"Sparse", "Make the embedding with sparse(false), or write SparseAdam."},
    {"out of bounds", "Targets must be 0 .. classes - 1, or the objective's ignore_index."},
    {"index out of range", "Indices must be smaller than the embedding's number of rows."},
    {"Found dtype",
     "The model's output and the target have two dtypes: convert the target to that of the "
     "output, e.g. by target.to(torch::kFloat)."},
    {"Weight scalar types",
     "cuDNN computes a recurrent layer in one dtype: let keep_fp32 match all of the layer's "
     "parameters or none."},
    {"scalar type", "Convert the batch's tensor to the dtype that the operation names."},
    {"same dtype",
     "Convert the batch's tensor to the model's dtype, e.g. batch.input.to(torch::kFloat)."},
    {"device",
     "All tensors of the loss must be on the device that the model was on when its trainer was "
     "made; the trainer moves batches there. Move a model before, or by On{device}."},
    {"shape", compare_shapes},
    {"size", compare_shapes},
    {"channels", compare_shapes},
    {"dimension", compare_shapes},
};

/// Returns the suggestion for an error whose text is `what`.
const char* suggestion(const std::string& what);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/suggestion.ipp>
#endif
