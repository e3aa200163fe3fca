#pragma once
// The policy Muon and its mechanism.
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/optimizer/fallback_optimizer.hpp>
#include <ikebana/optimizer/matrix_rounds.hpp>
#include <ikebana/optimizer/newton_schulz.hpp>
#include <ikebana/optimizer/per_parameter.hpp>
#include <ikebana/parameters/matched_names.hpp>

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
  /// Of the Newton-Schulz iteration's polynomial: those of x, x^3 and x^5.
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;                                ///< least norm by which a matrix is divided
  std::int64_t ns_steps = 5;                        ///< iterations, less than 100
  AdjustLR adjust_lr_fn = AdjustLR::Original;       ///< how a matrix's shape changes its lr
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies in BFloat16
  ParameterRule match = two_dimensional;            ///< which matrices it updates
  AdamW otherwise = {};                             ///< updates all other parameters
  std::vector<Group> groups = {};                   ///< matrices with values of their own
};

namespace detail {

/// Muon's update, of matrices alone.
template <std::same_as<Muon> Policy>
struct MuonMatrices : PerParameterOptimizer<Muon> {
  explicit MuonMatrices(Muon v) : PerParameterOptimizer(std::move(v), {{"momentum_buffer"}}) {
    by_operators_ = needs_whole_ = updates_cut_ = true;
    check_values();
  }

  void attach(c10::Device device, const UnitTable& units) {
    products_ = HalfProducts("Muon", device, at::kBFloat16);
    check_left_out("Muon", values.match, parameter_names(units));
  }
  bool has_instructions() const { return products_.has_instructions(); }
  void use_instructions(bool on_all_ranks) { products_.use_instructions(on_all_ranks); }
  template <class IsUpdated = EveryMaster>
  void begin(const Masters& masters, const IsUpdated& is_updated = {}) {
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      check(!is_updated(i) || masters.values[i].dim() == 2, [&] {
        return "Muon updates matrices, and `match` is true for `" + masters.names[i] +
               "` of shape " + c10::str(masters.values[i].sizes()) +
               ". Exclude it, so that the optimizer of the others updates it: matrices_but(rule) "
               "is true for all matrices but those of a rule.";
      });
    PerParameterOptimizer::begin(masters, is_updated);
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    products_.check(values.cpu_products);
    prepare_each(masters, gradients, rate, 1, [](const at::Tensor& p, const at::Tensor&) {
      return Scratch::bytes(p.numel(), p.scalar_type()) + NewtonSchulz::scratch(p.sizes());
    });
  }
  void update(const Masters&, StepGradients& gradients) {
    if (ranks_ != nullptr) return update_slices(gradients);
    update_each(gradients, [&](const ParameterUpdate& update) { update_matrix(update); });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", weight_decay=" + c10::str(values.weight_decay) +
           ", momentum=" + c10::str(values.momentum) + (values.nesterov ? ", nesterov" : "") +
           (values.adjust_lr_fn == AdjustLR::Original ? "" : ", adjust_lr_fn=MatchRMSAdamW");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 protected:
  void check_values() const {
    check_rate();
    check(values.momentum >= 0 && std::isfinite(values.momentum), [&] {
      return "momentum is " + c10::str(values.momentum) + "; it must be finite and not negative.";
    });
    const auto& ns = values.ns_coefficients;
    check(
        std::isfinite(ns[0] + ns[1] + ns[2]) && values.eps >= 0 && std::isfinite(values.eps), [&] {
          return "ns_coefficients are " + c10::str(ns[0], ", ", ns[1], ", ", ns[2]) + " and eps " +
                 c10::str(values.eps) + "; they must be finite, and eps not negative.";
        });
    check(values.ns_steps >= 0 && values.ns_steps < 100, [&] {
      return "ns_steps is " + c10::str(values.ns_steps) + "; it must be from 0 to 99.";
    });
    check(static_cast<bool>(values.match),
          "Muon's `match` is empty. Leave it out for all matrices, or give it a rule.");
  }

 private:
  void update_matrix(const ParameterUpdate& update) {
    const at::Tensor& p = update.parameter();
    at::Tensor change = update.scratch.like(p);
    const at::Tensor direction = next_direction(update, change);
    NewtonSchulz orthogonal(p.sizes(), update.scratch);
    const bridge::WideProductsScope products(products_.in_fp32(values.cpu_products));
    change.copy_(orthogonal(direction, values.ns_coefficients, values.ns_steps, update.eps()));
    apply(update, change, p.sizes());
  }
  /// Elements, and lr by the whole matrix's shape; only the iteration needs the matrix itself.
  void update_slices(const StepGradients& gradients) {
    auto take = [&](CutParameter& parameter, const at::Tensor& rows) {
      parameter.read([&](const ParameterUpdate& update) {
        rows.copy_(next_direction(update, update.scratch.like(update.parameter())));
      });
    };
    auto compute = [&](const CutParameter& parameter, const at::Tensor& matrix) {
      Scratch memory;
      memory.reserve(NewtonSchulz::scratch(matrix.sizes()), matrix.device());
      NewtonSchulz orthogonal(matrix.sizes(), memory);
      const bridge::WideProductsScope products(products_.in_fp32(values.cpu_products));
      matrix.copy_(orthogonal(matrix, values.ns_coefficients, values.ns_steps, parameter.eps()));
    };
    auto write = [&](CutParameter& parameter, const at::Tensor& rows) {
      parameter.write([&](const ParameterUpdate& update) {
        const at::Tensor change = update.scratch.like(update.parameter()).copy_(rows);
        apply(update, change, parameter.slice().sizes);
      });
    };
    update_cut(gradients, [&](std::vector<CutParameter>& all) {
      MatrixRounds(all, *ranks_).run(take, compute, write);
    });
  }
  /// Updates the momentum. `memory` is used for what is returned, if anything is.
  at::Tensor next_direction(const ParameterUpdate& update, at::Tensor memory) const {
    const at::Tensor &g = update.gradient(), &buffer = update.state(0);
    buffer.lerp_(g, 1 - update.momentum());
    return values.nesterov ? at::lerp_out(memory, g, buffer, update.momentum()) : buffer;
  }
  void apply(const ParameterUpdate& update, const at::Tensor& change, at::IntArrayRef sizes) const {
    const at::Tensor& p = update.parameter();
    update.with_lr_and_step([&](const auto& lr, const auto&) {
      p.mul_(1 - lr * update.weight_decay());
      subtract_scaled(p, change, lr * lr_factor(sizes));
    });
  }
  double lr_factor(at::IntArrayRef sizes) const {
    auto rows = static_cast<double>(sizes[0]), columns = static_cast<double>(sizes[1]);
    if (values.adjust_lr_fn == AdjustLR::Original) return std::sqrt(std::max(1.0, rows / columns));
    return 0.2 * std::sqrt(std::max(rows, columns));
  }

  HalfProducts products_;
};

template <>
struct without_fallback<Muon> {
  using type = MuonMatrices<Muon>;
};

}  // namespace detail

template <std::same_as<Muon> Policy>
struct Mechanism<Policy> : detail::WithFallback<detail::MuonMatrices<Muon>> {
  explicit Mechanism(Muon v) : WithFallback(std::move(v)) {}

  void begin(const Masters& masters) {
    uses_muon_.clear(), rule_ = values.match;
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      uses_muon_.push_back(detail::holds_for(values.match, masters, i));
    detail::check_matches("optimizer: Muon's `match` matches", values.match,
                          detail::all_names(masters),
                          ". Correct it, or write the optimizer of the others alone.");
    MuonMatrices::begin(masters, [&](std::size_t i) { return uses_muon_[i]; });
    fallback_.mechanism.begin(masters, [&](std::size_t i) { return !uses_muon_[i]; });
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();  // before AdamW makes its state
    if (!values.match.is(rule_)) check_rule(masters);
    StepGradients& matrices =
        fallback_.prepare(values.otherwise, masters, gradients, rate,
                          [&](std::size_t i, const at::Tensor&) { return uses_muon_[i]; });
    MuonMatrices::prepare(masters, matrices, rate);
  }

 private:
  /// Another rule may be assigned, as long as each parameter stays with its optimizer.
  void check_rule(const Masters& masters) {
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      check(detail::holds_for(values.match, masters, i) == uses_muon_[i], [&] {
        return "Muon's `match` was changed after the trainer was made, and gives `" +
               masters.names[i] + "` to another optimizer. Make a new trainer.";
      });
    rule_ = values.match;
  }

  std::vector<bool> uses_muon_;  // of each master
  ParameterRule rule_;           // that it was made by
};

}  // namespace ikebana
