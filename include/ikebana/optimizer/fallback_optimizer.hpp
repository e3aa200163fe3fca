#pragma once
// Two optimizers in one word: a word that cannot update every parameter has a field for the rest.
#include <ikebana/optimizer/adamw.hpp>

namespace ikebana::detail {

/// What the field `otherwise` updates: the gradients that are not `mine`.
class FallbackOptimizer {
 public:
  Mechanism<AdamW> mechanism;
  explicit FallbackOptimizer(AdamW values) : mechanism(std::move(values)) {}

  /// Sorts gradients by `is_mine(master, gradient)`, and prepares the others' update. Returns mine.
  template <class Rate, class IsMine>
  StepGradients& prepare(const AdamW& values, const Masters& masters,
                         const StepGradients& gradients, const Rate& rate, const IsMine& is_mine) {
    mechanism.values = values;  // they may have been changed since the last step
    for (StepGradients* part : {&mine_, &others_}) {
      part->indices.clear(), part->values.clear();
      part->divisor = gradients.divisor, part->found_inf = gradients.found_inf;
    }
    for (std::size_t k = 0; k < gradients.indices.size(); ++k) {
      std::size_t i = gradients.indices[k];
      StepGradients& part = is_mine(i, gradients.values[k]) ? mine_ : others_;
      part.indices.push_back(i), part.values.push_back(gradients.values[k]);
    }
    mechanism.prepare(masters, others_, rate);
    return mine_;
  }
  StepGradients& mine() { return mine_; }
  void update(const Masters& masters) noexcept {
    mechanism.update(masters, others_);
    mine_.values.clear(), others_.values.clear();
  }
  void abort() noexcept {
    mine_.values.clear(), others_.values.clear();
    mechanism.abort();
  }
  void state(Archive& archive, AdamW& values, const Masters& masters) {
    mechanism.values = values;
    archive.within("otherwise", [&] { mechanism.state(archive, masters); });
    values = mechanism.values;
  }

 private:
  StepGradients mine_, others_;
};

}  // namespace ikebana::detail
