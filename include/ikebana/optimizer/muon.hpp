#pragma once
#include <ikebana/optimizer/per_parameter.hpp>
#include <ikebana/optimizer/newton_schulz.hpp>
#include <ikebana/optimizer/fallback_optimizer.hpp>

namespace ikebana {

/// What Muon makes of its lr for a matrix of (rows, columns): times sqrt(max(1, rows / columns)),
/// or times 0.2 sqrt(max(rows, columns)), with which an lr found for AdamW fits.
enum class AdjustLR { Original, MatchRMSAdamW };

/// Momentum made orthogonal: every direction in which a matrix can change moves as far as any
/// other. Matrices that `match` chooses, by default all parameters of two dimensions, are updated
/// so; all others by `otherwise`, for which PyTorch needs a second optimizer. Embeddings and heads
/// belong to those: `.match = matrices_but(named("embed.*", "head.*"))`. One moment in the
/// parameters' type a matrix; per step and matrix 15 matrix products in BFloat16, which for large
/// batches are a small part of the model's own; scratch for the largest. Fields and defaults as
/// torch.optim.Muon; `groups` are Muon's, `otherwise` has its own. Source: Jordan et al.,
/// kellerjordan.github.io/posts/muon; MatchRMSAdamW: Liu et al., arXiv:2502.16982.
struct Muon {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;
  std::int64_t ns_steps = 5;
  AdjustLR adjust_lr_fn = AdjustLR::Original;
  ParameterRule match = two_dimensional;
  AdamW otherwise = {};
  std::vector<Group> groups = {};
};

template <>
struct Mechanism<Muon> : detail::EachParameter<Muon> {
  explicit Mechanism(Muon v)
      : EachParameter(std::move(v), {{"momentum_buffer"}}), fallback_(values.otherwise) {
    check_values();
  }

  void begin(const Masters& masters) {
    is_mine_.clear();
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const at::Tensor& p = masters.values[i];
      is_mine_.push_back(values.match(masters.names[i], p));
      check(!is_mine_[i] || p.dim() == 2, [&] {
        return "Muon updates matrices, and its rule matches `" + masters.names[i] + "` of shape " +
               c10::str(p.sizes()) + ". Let `match` leave it to `otherwise`.";
      });
    }
    EachParameter::begin(masters, [&](std::size_t i) { return is_mine_[i]; });
    fallback_.mechanism.begin(masters, [&](std::size_t i) { return !is_mine_[i]; });
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    StepGradients& mine =
        fallback_.prepare(values.otherwise, masters, gradients, rate,
                           [&](std::size_t i, const at::Tensor&) { return is_mine_[i]; });
    prepare_each(masters, mine, rate, 1, [](const at::Tensor& p, const at::Tensor&) {
      return detail::Scratch::bytes(p.numel(), p.scalar_type()) + detail::NewtonSchulz::scratch(p);
    });
  }
  void update(const Masters& masters, StepGradients&) noexcept {
    update_each(fallback_.mine(), [&](const detail::ParameterUpdate& one) { update_one(one); });
    fallback_.update(masters);
  }
  void abort() noexcept {
    EachParameter::abort();
    fallback_.abort();
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", weight_decay=" + c10::str(values.weight_decay) +
           ", momentum=" + c10::str(values.momentum) + (values.nesterov ? ", nesterov" : "") +
           (values.adjust_lr_fn == AdjustLR::Original ? "" : ", adjust_lr_fn=MatchRMSAdamW") +
           ", otherwise AdamW {" + Mechanism<AdamW>(values.otherwise).describe() + "}";
  }
  void state(Archive& archive, const Masters& masters) {
    save(archive, masters, 1);
    fallback_.state(archive, values.otherwise, masters);
  }

 private:
  void update_one(const detail::ParameterUpdate& one) noexcept {
    const at::Tensor &p = one.parameter(), &g = one.gradient(), &buffer = one.state(0);
    buffer.lerp_(g, 1 - values.momentum);
    at::Tensor wide = one.scratch.take(p.sizes(), p.scalar_type());
    if (values.nesterov) at::lerp_out(wide, g, buffer, values.momentum);
    detail::NewtonSchulz orthogonal(p, one.scratch);
    wide.copy_(orthogonal(values.nesterov ? wide : buffer, values.ns_coefficients, values.ns_steps,
                          values.eps));
    one.with_numbers([&](const auto& lr, const auto&) {
      p.mul_(1 - lr * one.weight_decay());
      detail::step_along(p, wide, lr * adjusted(p));
    });
  }
  double adjusted(const at::Tensor& p) const {
    auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
    if (values.adjust_lr_fn == AdjustLR::Original) return std::sqrt(std::max(1.0, rows / columns));
    return 0.2 * std::sqrt(std::max(rows, columns));
  }
  void check_values() const {
    check_rate();
    check(values.momentum >= 0, "momentum is negative.");
    check(values.ns_steps >= 0 && values.ns_steps < 100, "ns_steps must be from 0 to 99.");
    check(static_cast<bool>(values.match), "Muon has no rule. Leave `match` out, or give one.");
  }

  std::vector<bool> is_mine_;  // of each master
  detail::FallbackOptimizer fallback_;
};

}  // namespace ikebana
