#pragma once
// AdamW for the parameters that the recipe's optimizer (Muon, SparseAdam) cannot update.
#include <ikebana/optimizer/adamw.hpp>

namespace ikebana::detail {

/// Divides a step's gradients between the recipe's optimizer and an AdamW, which has the values of
/// the policy's field `otherwise`.
template <class Fallback = AdamW>
class FallbackOptimizer {
 public:
  Mechanism<Fallback> mechanism;
  explicit FallbackOptimizer(Fallback values) : mechanism(std::move(values)) {}

  /// Prepares AdamW's update of the gradients for which `is_primary(master, gradient)` is false.
  /// Returns the others.
  template <class Rate, class IsPrimary>
  StepGradients& prepare(const Fallback& values, const Masters& masters,
                         const StepGradients& gradients, const Rate& rate,
                         const IsPrimary& is_primary) {
    mechanism.values = values;  // the caller may have changed them since the last step
    for (StepGradients* part : {&primary_, &fallback_}) {
      part->indices.clear(), part->values.clear();
      part->divisor = gradients.divisor, part->found_inf = gradients.found_inf;
    }
    for (std::size_t k = 0; k < gradients.indices.size(); ++k) {
      std::size_t i = gradients.indices[k];
      StepGradients& part = is_primary(i, gradients.values[k]) ? primary_ : fallback_;
      part.indices.push_back(i), part.values.push_back(gradients.values[k]);
    }
    mechanism.prepare(masters, fallback_, rate);
    return primary_;
  }
  /// The gradients of the recipe's optimizer.
  StepGradients& primary() { return primary_; }
  void update(const Masters& masters) noexcept {
    mechanism.update(masters, fallback_);
    primary_.values.clear(), fallback_.values.clear();
  }
  void abort() noexcept {
    primary_.values.clear(), fallback_.values.clear();
    mechanism.abort();
  }
  void state(Archive& archive, Fallback& values, const Masters& masters) {
    mechanism.values = values;
    archive.within("otherwise", [&] { mechanism.state(archive, masters); });
    values = mechanism.values;
  }

 private:
  StepGradients primary_, fallback_;
};

}  // namespace ikebana::detail
