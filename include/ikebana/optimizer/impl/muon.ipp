#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/model/matched_names.hpp>
#include <ikebana/optimizer/matrices/matrix_rounds.hpp>
#include <ikebana/optimizer/muon.hpp>

namespace ikebana::detail {

IKEBANA_INLINE MuonMatrices::MuonMatrices(Muon v)
    : PerParameterOptimizer(std::move(v), {{"momentum_buffer"}}) {
  by_operators_ = needs_whole_ = updates_cut_ = true;
  check_values();
}

IKEBANA_INLINE void MuonMatrices::attach(c10::Device device, const UnitTable& units) {
  products_ = HalfProducts("Muon", device, at::kBFloat16);
  check_left_out("Muon", values.match, parameter_names(units));
}

IKEBANA_INLINE void MuonMatrices::update(const Masters&, StepGradients& gradients) {
  if (ranks_ != nullptr) return update_slices(gradients);
  update_each(gradients, [&](const ParameterUpdate& update) { update_matrix(update); });
}

IKEBANA_INLINE void MuonMatrices::begin(const Masters& masters,
                                        c10::function_ref<bool(std::size_t)> is_updated) {
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    check(!is_updated(i) || masters.values[i].dim() == 2, [&] {
      return "Muon updates matrices, and `match` is true for `" + masters.names[i] + "` of shape " +
             c10::str(masters.values[i].sizes()) +
             ". Exclude it, so that the optimizer of the others updates it: matrices_but(rule) "
             "is true for all matrices but those of a rule.";
    });
  PerParameterOptimizer::begin(masters, is_updated);
}

IKEBANA_INLINE std::string MuonMatrices::describe() const {
  return "lr=" + c10::str(values.lr) + ", weight_decay=" + c10::str(values.weight_decay) +
         ", momentum=" + c10::str(values.momentum) + (values.nesterov ? ", nesterov" : "") +
         (values.adjust_lr_fn == AdjustLR::Original ? "" : ", adjust_lr_fn=MatchRMSAdamW");
}

IKEBANA_INLINE void MuonMatrices::check_values() const {
  check_rate();
  check(values.momentum >= 0 && std::isfinite(values.momentum), [&] {
    return "momentum is " + c10::str(values.momentum) + "; it must be finite and not negative.";
  });
  const auto& ns = values.ns_coefficients;
  check(std::isfinite(ns[0] + ns[1] + ns[2]) && values.eps >= 0 && std::isfinite(values.eps), [&] {
    return "ns_coefficients are " + c10::str(ns[0], ", ", ns[1], ", ", ns[2]) + " and eps " +
           c10::str(values.eps) + "; they must be finite, and eps not negative.";
  });
  check(values.ns_steps >= 0 && values.ns_steps < 100,
        [&] { return "ns_steps is " + c10::str(values.ns_steps) + "; it must be from 0 to 99."; });
  check(static_cast<bool>(values.match),
        "Muon's `match` is empty. Leave it out for all matrices, or give it a rule.");
}

IKEBANA_INLINE void MuonMatrices::update_matrix(const ParameterUpdate& update) {
  const at::Tensor& p = update.parameter();
  at::Tensor change = update.scratch.like(p);
  const at::Tensor direction = next_direction(update, change);
  NewtonSchulz orthogonal(p.sizes(), update.scratch);
  const bridge::WideProductsScope products(products_.in_fp32(values.cpu_products));
  change.copy_(orthogonal(direction, values.ns_coefficients, values.ns_steps, update.eps()));
  apply(update, change, p.sizes());
}

IKEBANA_INLINE void MuonMatrices::update_slices(const StepGradients& gradients) {
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

IKEBANA_INLINE at::Tensor MuonMatrices::next_direction(const ParameterUpdate& update,
                                                       at::Tensor memory) const {
  const at::Tensor &g = update.gradient(), &buffer = update.state(0);
  buffer.lerp_(g, 1 - update.momentum());
  return values.nesterov ? at::lerp_out(memory, g, buffer, update.momentum()) : buffer;
}

IKEBANA_INLINE void MuonMatrices::apply(const ParameterUpdate& update, const at::Tensor& change,
                                        at::IntArrayRef sizes) const {
  const at::Tensor& p = update.parameter();
  update.with_lr_and_step([&](const auto& lr, const auto&) {
    p.mul_(1 - lr * update.weight_decay());
    subtract_scaled(p, change, lr * lr_factor(sizes));
  });
}

IKEBANA_INLINE double MuonMatrices::lr_factor(at::IntArrayRef sizes) const {
  auto rows = static_cast<double>(sizes[0]), columns = static_cast<double>(sizes[1]);
  if (values.adjust_lr_fn == AdjustLR::Original) return std::sqrt(std::max(1.0, rows / columns));
  return 0.2 * std::sqrt(std::max(rows, columns));
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Mechanism<Muon>::begin(const Masters& masters) {
  uses_muon_.clear(), rule_ = values.match;
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    uses_muon_.push_back(detail::holds_for(values.match, masters, i));
  detail::check_matches("optimizer: Muon's `match` matches", values.match,
                        detail::all_names(masters),
                        ". Correct it, or write the optimizer of the others alone.");
  MuonMatrices::begin(masters, [&](std::size_t i) { return uses_muon_[i]; });
  fallback_.mechanism.begin(masters, [&](std::size_t i) { return !uses_muon_[i]; });
}

IKEBANA_INLINE void Mechanism<Muon>::check_rule(const Masters& masters) {
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    check(detail::holds_for(values.match, masters, i) == uses_muon_[i], [&] {
      return "Muon's `match` was changed after the trainer was made, and gives `" +
             masters.names[i] + "` to another optimizer. Make a new trainer.";
    });
  rule_ = values.match;
}

}  // namespace ikebana
