#pragma once
// Defines the policy Muon and its mechanism.
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/optimizer/engine/fallback_optimizer.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>
#include <ikebana/optimizer/matrices/newton_schulz.hpp>

namespace ikebana {

/// The factor of Muon's lr for a matrix of (rows, columns).
enum class AdjustLR {
  Original,      ///< sqrt(max(1, rows / columns))
  MatchRMSAdamW  ///< 0.2 sqrt(max(rows, columns)): an lr that was tuned for AdamW can be used
};

/// Momentum orthogonalized by a Newton-Schulz iteration: the singular values of a matrix's change
/// are about equal. It updates the matrices for which `match` is true, by default all parameters of
/// two dimensions, and `otherwise` updates the other parameters, for which PyTorch needs a second
/// optimizer. Embeddings and heads are matrices, but should go to `otherwise`:
/// `.match = matrices_but({"embed.*", "head.*"})`. State: one moment per matrix in its dtype.
/// Cost: four passes over memory and 15 matrix products in BFloat16 per matrix, which is a small
/// part of the model's own products for large batches; scratch for the largest matrix. Fields and
/// defaults as torch.optim.Muon; `groups` are Muon's, and `otherwise` has its own. Source: Jordan
/// et al., kellerjordan.github.io/posts/muon; MatchRMSAdamW: Liu et al., arXiv:2502.16982.
struct Muon {
  double lr = 1e-3;           ///< learning rate; a schedule multiplies it
  double weight_decay = 0.1;  ///< decoupled: takes lr * weight_decay * parameter
  double momentum = 0.95;     ///< decay of the moment, in [0, 1)
  bool nesterov = true;       ///< adds the gradient to the moment once more
  /// Coefficients of x, x^3 and x^5 in the Newton-Schulz iteration's polynomial.
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;                                ///< least norm by which a matrix is divided
  std::int64_t ns_steps = 5;                        ///< iterations, less than 100
  AdjustLR adjust_lr_fn = AdjustLR::Original;       ///< how a matrix's shape changes
                                                    ///< its lr
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies in
                                                    ///< BFloat16
  ParameterRule match = two_dimensional;            ///< chooses the matrices that it updates
  AdamW otherwise = {};                             ///< updates all other parameters
  std::vector<Group> groups = {};                   ///< matrices with values of their own
};

namespace detail {

/// Muon's update of matrices, without the optimizer of the other parameters.
struct MuonMatrices : PerParameterOptimizer<Muon> {
  explicit MuonMatrices(Muon v);

  void attach(c10::Device device, const UnitTable& units);
  bool has_instructions() const { return products_.has_instructions(); }
  void use_instructions(bool on_all_ranks) { products_.use_instructions(on_all_ranks); }
  void begin(const Masters& masters,
             c10::function_ref<bool(std::size_t)> is_updated = EveryMaster());
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    products_.check(values.cpu_products);
    prepare_each(masters, gradients, rate, 1, [](const at::Tensor& p, const at::Tensor&) {
      return Scratch::bytes(p.numel(), p.scalar_type()) + NewtonSchulz::scratch(p.sizes());
    });
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 protected:
  void check_values() const;

 private:
  void update_matrix(const ParameterUpdate& update);
  /// Updates slices: only the iteration needs the whole matrix, the rest needs its shape at most.
  void update_slices(const StepGradients& gradients);
  /// Updates the momentum and returns the direction, in `memory` or the momentum itself.
  at::Tensor next_direction(const ParameterUpdate& update, at::Tensor memory) const;
  void apply(const ParameterUpdate& update, const at::Tensor& change, at::IntArrayRef sizes) const;
  double lr_factor(at::IntArrayRef sizes) const;

  HalfProducts products_;
};

template <>
struct without_fallback<Muon> {
  using type = MuonMatrices;
};

}  // namespace detail

template <>
struct Mechanism<Muon> : detail::WithFallback<detail::MuonMatrices> {
  explicit Mechanism(Muon v) : WithFallback(std::move(v)) {}

  void begin(const Masters& masters);
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();  // checks the values before AdamW makes its state
    if (!values.match.is(rule_)) check_rule(masters);
    StepGradients& matrices =
        fallback_.prepare(values.otherwise, masters, gradients, rate,
                          [&](std::size_t i, const at::Tensor&) { return uses_muon_[i]; });
    MuonMatrices::prepare(masters, matrices, rate);
  }

 private:
  /// Throws BadValue if another rule was assigned by which a parameter changes its optimizer.
  void check_rule(const Masters& masters);

  std::vector<bool> uses_muon_;  // whether Muon updates it, for each master
  ParameterRule rule_;           // the rule from which it was made
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/muon.ipp>
#endif
