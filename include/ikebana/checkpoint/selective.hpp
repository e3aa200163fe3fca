#pragma once
// Checkpoint<Selective>: the outputs of costly operators are kept, the others are recomputed.
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>
#include <ikebana/checkpoint/frame/operator_rule.hpp>

namespace ikebana {

/// Every unit keeps its inputs and the outputs of its costly operators, and recomputes the others
/// in backward: saves a large part of what Checkpoint<Full> saves, for a small part of its time.
/// `keep` chooses operators below autograd; by default matrix products, convolutions and attention.
/// Casts, views, empty tensors and in-place operators are always computed again, whatever the rule
/// returns. Changes no bit. Costs about a microsecond per operator besides. Source:
/// torch.utils.checkpoint's create_selective_checkpoint_contexts.
template <>
struct Checkpoint<Selective> {
  OperatorRule keep = matrix_operators;  ///< the operators whose outputs are kept
};

template <>
struct Mechanism<Checkpoint<Selective>> : detail::CheckpointMechanism {
  using carries_out = Checkpoint<Selective>;
  Checkpoint<Selective> values;
  explicit Mechanism(Checkpoint<Selective> v) : values(std::move(v)) { check(); }

  void attach(c10::Device device, const UnitTable& table);
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    return checkpoint_unit(own_frame(), unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const;

 private:
  std::shared_ptr<detail::Frame> own_frame() const;
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/impl/selective.ipp>
#endif
