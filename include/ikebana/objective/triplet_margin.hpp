#pragma once
// Defines the policy TripletMarginLoss and its mechanism.
#include <ikebana/objective/embeddings.hpp>

namespace ikebana {

/// Sum over rows of max(0, d(anchor, positive) - d(anchor, negative) + `margin`). The distance d is
/// the `p`-norm of the difference of two embeddings, to whose elements `eps` is added. With `swap`,
/// the second distance is the smaller of the distances from anchor and from positive to the
/// negative. Counts rows, as PyTorch's mean does. The batch is a struct with `anchor`, `positive`
/// and `negative`; the model is run with each, in this order, and returns embeddings (N, D). With
/// `outputs` the report has them as (N, 3, D). Throws BadModel for other shapes, BadValue for a
/// `margin` that is not above
/// 0. Source: torch.nn.TripletMarginLoss.
struct TripletMarginLoss {
  double margin = 1;     ///< the distance by which the negative must be farther, above 0
  double p = 2;          ///< norm of a difference: 2 is the Euclidean
  double eps = 1e-6;     ///< added to each element of a difference
  bool swap = false;     ///< whether it also uses the distance from positive to negative
  bool outputs = false;  ///< whether the report has the model's outputs
};

template <>
struct Mechanism<TripletMarginLoss> : detail::Embeddings<TripletMarginLoss> {
  explicit Mechanism(TripletMarginLoss v) : Embeddings(v) { check(); }

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    if constexpr (detail::fields_with_tensors<Batch>() > 3)
      return refuse::is<refuse::IgnoredFields<Batch>>{};
    else if constexpr (requires(const Batch& b) { b.anchor, b.positive, b.negative; })
      return detail::inputs_refusal<Run, Model, decltype(Batch::anchor), decltype(Batch::positive),
                                    decltype(Batch::negative)>();
    else return refuse::is<refuse::BatchLacksFields<TripletMarginLoss, Batch>>{};
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    check();
    const at::Tensor anchor = run(model, batch.anchor), positive = run(model, batch.positive),
                     negative = run(model, batch.negative);
    check_embeddings({anchor, positive, negative});
    at::Tensor sum = at::triplet_margin_loss(anchor, positive, negative, values.margin, values.p,
                                             values.eps, values.swap, at::Reduction::Sum);
    return {sum, anchor.size(0), joined(run, {anchor, positive, negative})};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return rows(batch);
  }
  std::string describe() const;

 private:
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/triplet_margin.ipp>
#endif
