#pragma once
// The policy LAMB and its mechanism.
#include <ikebana/optimizer/by_operators.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana {

/// Adam whose change of each parameter is scaled to the norm of that parameter: for batches of tens
/// of thousands. A change is not scaled where one of both norms is 0. State: two moments in the
/// parameter's dtype and one step count. Cost: ten operators and two norms for each parameter, and
/// the copies by which an update is undone; of slices, one sum over ranks. PyTorch has no LAMB: the
/// fields and defaults are those of AdamW, but for eps, and the formulas those of algorithm 2 of
/// the paper, with the identity as its function of the norm. Source: You et al., arXiv:1904.00962.
struct LAMB {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-6;                           ///< added to the denominator
  double weight_decay = 1e-2;                  ///< adds weight_decay * parameter to the change
  bool maximize = false;                       ///< maximises the loss instead
  std::vector<Group> groups = {};              ///< parameters with values of their own
};

namespace detail {

/// norm / norm of the change, or 1 where one of them is 0.
inline double trust_ratio(double norm, double of_change) {
  return norm > 0 && of_change > 0 ? norm / of_change : 1;
}
inline at::Tensor trust_ratio(const at::Tensor& norm, const at::Tensor& of_change) {
  return at::where(norm.gt(0).logical_and_(of_change.gt(0)), norm / of_change, 1);
}

}  // namespace detail

template <std::same_as<LAMB> Policy>
struct Mechanism<Policy> : detail::ByOperators<LAMB> {
  explicit Mechanism(LAMB v) : ByOperators(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}) {
    needs_whole_ = updates_cut_ = true;  // for the norms
    check_values();
  }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_scratch(masters, gradients, rate, 2, 2);
  }
  void update(const Masters&, StepGradients& gradients) {
    if (ranks_ != nullptr) return update_slices(gradients);
    update_each(gradients, [&](const detail::ParameterUpdate& update) {
      add_to_moments(update);
      update.with_lr_and_step([&](const auto& lr, const auto& step) {
        const at::Tensor change = next_change(update, step);
        const auto norm = detail::as_number(at::linalg_vector_norm(update.parameter()), lr),
                   of_change = detail::as_number(at::linalg_vector_norm(change), lr);
        detail::subtract_scaled(update.parameter(), change,
                                lr * detail::trust_ratio(norm, of_change));
      });
    });
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }

 private:
  void add_to_moments(const detail::ParameterUpdate& update) const {
    const at::Tensor& g = signed_gradient(update);
    update.state(0).lerp_(g, 1 - update.betas()[0]);
    update.state(1).mul_(update.betas()[1]).addcmul_(g, g, 1 - update.betas()[1]);
  }
  /// The change of a parameter before it is scaled, by its moments.
  template <class Number>
  static at::Tensor next_change(const detail::ParameterUpdate& update, const Number& step) {
    const at::Tensor& p = update.parameter();
    at::Tensor change = update.scratch.like(p), root = update.scratch.like(p);
    const Number correction1 = detail::bias_correction(update.betas()[0], step),
                 correction2 = detail::bias_correction(update.betas()[1], step);
    at::div_out(change, update.state(0), detail::operand(correction1));
    at::div_out(root, update.state(1), detail::operand(correction2)).sqrt_().add_(update.eps());
    change.div_(root);
    if (update.weight_decay() != 0) change.add_(p, update.weight_decay());
    return change;
  }
  /// The squares of both norms are summed over ranks, and changes are computed again after that.
  void update_slices(const StepGradients& gradients) {
    auto squared_norm = [](const at::Tensor& t) {
      return at::linalg_vector_norm(t).to(at::kDouble).square();
    };
    update_cut(gradients, [&](std::vector<detail::CutParameter>& all) {
      if (all.empty()) return;
      const auto count = std::ssize(all);
      std::vector<at::Tensor> sums = {at::zeros({count, 2}, all[0].options().dtype(at::kDouble))};
      for (std::int64_t k = 0; k < count; ++k)
        all[static_cast<std::size_t>(k)].read([&](const detail::ParameterUpdate& update) {
          add_to_moments(update);
          update.with_lr_and_step([&](const auto&, const auto& step) {
            sums[0][k][0].copy_(squared_norm(update.parameter()));
            sums[0][k][1].copy_(squared_norm(next_change(update, step)));
          });
        });
      ranks_->sum(sums);
      const at::Tensor norms = sums[0].sqrt();
      for (std::int64_t k = 0; k < count; ++k)
        all[static_cast<std::size_t>(k)].write([&](const detail::ParameterUpdate& update) {
          update.with_lr_and_step([&](const auto& lr, const auto& step) {
            const auto ratio = detail::trust_ratio(detail::as_number(norms[k][0], lr),
                                                   detail::as_number(norms[k][1], lr));
            detail::subtract_scaled(update.parameter(), next_change(update, step), lr * ratio);
          });
        });
    });
  }
  void check_values() const { check_rate(), check_betas(), check_eps(); }
};

}  // namespace ikebana
