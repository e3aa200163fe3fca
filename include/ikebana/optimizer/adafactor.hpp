#pragma once
// Defines the policy Adafactor and its mechanism.
#include <ikebana/optimizer/engine/per_parameter.hpp>
#include <optional>
#include <utility>

namespace ikebana {

/// Adam without a first moment, whose second moment is factored into means over rows and columns of
/// the last two dimensions. State: n + m elements for an (n, m) matrix, instead of Adam's 2 n m; an
/// unfactored second moment for a vector; and one step count. Steps are relative to the RMS of a
/// parameter. Cost: about six passes over memory, and scratch for the largest parameter. Fields and
/// defaults as torch.optim.Adafactor; without a value, `eps.first` is the dtype's machine epsilon.
/// Source: Shazeer and Stern, arXiv:1804.04235.
struct Adafactor {
  double lr = 1e-2;           ///< largest rate relative to the parameter's RMS
  double beta2_decay = -0.8;  ///< in step t the second moment's decay is 1 - t^beta2_decay
  /// Lower bounds: of the second moment's root, and of the parameter's RMS that steps are relative
  /// to.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1;                    ///< largest RMS of an update before the rate is applied
  double weight_decay = 0;         ///< decoupled: takes lr * weight_decay * parameter
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

template <>
struct Mechanism<Adafactor> : PerParameterOptimizer<Adafactor> {
  explicit Mechanism(Adafactor v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 3,
                 [](const at::Tensor& p, const at::Tensor&) { return scratch_bytes(p); });
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 3); }

 private:
  static std::int64_t scratch_bytes(const at::Tensor& p);
  static std::vector<Slot> state_slots();
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adafactor.ipp>
#endif
