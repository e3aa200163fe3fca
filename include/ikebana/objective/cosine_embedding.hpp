#pragma once
// Defines the policy CosineEmbeddingLoss and its mechanism.
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/objective/embeddings.hpp>

namespace ikebana {

/// Sum over rows of 1 - cos(x1, x2) if the target is 1, and max(0, cos(x1, x2) - `margin`) if it is
/// -1. Counts rows, as PyTorch's mean does. The batch is a struct with `input1`, `input2` and
/// `target` (N); the model is run with both inputs, in this order, and returns embeddings (N, D).
/// With `outputs` the report has them as (N, 2, D). Throws BadModel for other shapes; BadBatch for
/// a target of another shape, or on a CPU with other values, which PyTorch's operator ignores; and
/// BadValue for a `margin` outside of -1 to 1. Source: torch.nn.CosineEmbeddingLoss.
struct CosineEmbeddingLoss {
  double margin = 0;     ///< the least cosine that costs if the target is -1
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<CosineEmbeddingLoss> : detail::Embeddings<CosineEmbeddingLoss> {
  explicit Mechanism(CosineEmbeddingLoss v) : Embeddings(v) { check(); }

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    if constexpr (detail::fields_with_tensors<Batch>() > 3)
      return refuse::is<refuse::IgnoredFields<Batch>>{};
    else if constexpr (requires(const Batch& b) { b.input1, b.input2, b.target; })
      return detail::inputs_refusal<Run, Model, decltype(Batch::input1), decltype(Batch::input2)>();
    else return refuse::is<refuse::BatchLacksFields<CosineEmbeddingLoss, Batch>>{};
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    check();
    const at::Tensor first = run(model, batch.input1), second = run(model, batch.input2);
    check_embeddings({first, second});
    check_target(first, batch.target, run);
    at::Tensor sum =
        at::cosine_embedding_loss(first, second, batch.target, values.margin, at::Reduction::Sum);
    return {sum, first.size(0), joined(run, {first, second})};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return rows(batch);
  }
  std::string describe() const { return "margin=" + c10::str(values.margin); }

 private:
  void check() const;
  template <class Run>
  static void check_target(const at::Tensor& embedding, const at::Tensor& target, const Run&) {
    const bool has_shape = target.dim() == 1 && target.size(0) == embedding.size(0);
    if (has_shape && (!detail::readable(target) || target.abs().eq(1).all().item<bool>())) return;
    throw BadBatch("CosineEmbeddingLoss: the target is " + detail::tensors_text(target) +
                   (has_shape ? " with other values than 1 and -1"
                              : ", for embeddings of shape " + c10::str(embedding.sizes())) +
                   ". Give each row 1 for two that are alike, and -1 for two that are not.");
  }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/cosine_embedding.ipp>
#endif
