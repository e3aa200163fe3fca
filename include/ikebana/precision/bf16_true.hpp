#pragma once
#include <ikebana/precision/low_weights.hpp>
#include <ikebana/precision/stochastic_rounding.hpp>

namespace ikebana {

/// BF16 weights without masters: parameters and their gradients are BF16 while the trainer lives,
/// the update is computed in FP32 and rounded by chance, so that updates too small for BF16 still
/// move weights on average. Costs 4 bytes a weight and the optimizer's state, which is FP32
/// (moments in BF16 would stand still: 0.1% of themselves is less than half a unit), and scratch
/// memory for the largest parameter: 8 bytes an element, 16 on an accelerator. Gradients of several
/// microbatches add up in BF16. The rest of forward is Precision<BF16>'s autocast.
/// Random bits depend on `seed`, the step and the place alone: they draw from no generator, every
/// rank has the same, and they are saved. Source: Zamirai et al., arXiv:2010.06192.
template <>
struct Precision<BF16True> {
  ParameterRule keep_fp32 = one_dimensional;
  std::int64_t seed = 0;
};

template <>
struct Mechanism<Precision<BF16True>> : detail::LowWeights, UpdateRounding {
  Precision<BF16True> values;
  explicit Mechanism(Precision<BF16True> v) : values(std::move(v)) {}
  ~Mechanism() override {
    for (auto& [parameter, type] : former_) convert(parameter, type);
  }
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;

  void attach(c10::Device where, const UnitTable& table) {
    LowWeights::attach(where, table);
    choose(table, values.keep_fp32);
    for (const Unit& unit : table.units())
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        const at::Tensor& p = unit.parameters[i];
        if (!is_low(unit, i, unit.parameters.size()) || p.scalar_type() == at::kBFloat16) continue;
        former_.emplace_back(p, p.scalar_type());
        convert(p, at::kBFloat16);
      }
  }
  UpdateRounding* rounding() { return this; }

  void prepare_rounding(const at::TensorOptions& options, std::int64_t most) override {
    if (options.device().is_cpu()) return;
    if (!key_.defined()) key_ = at::empty({2}, options.dtype(at::kInt));
    for (at::Tensor* scratch : {&h_, &t_})
      if (!scratch->defined() || scratch->numel() < most)
        *scratch = at::empty({most}, options.dtype(at::kInt));
    auto key = detail::RoundingKey::of(values.seed, round_, 0);
    key_[0].fill_(detail::RoundByOperators::as_int(key.first));
    key_[1].fill_(detail::RoundByOperators::as_int(key.second));
  }
  void write(const at::Tensor& parameter, const at::Tensor& exact,
             std::size_t index) noexcept override {
    auto key = detail::RoundingKey::of(values.seed, round_, index);
    if (parameter.is_cpu()) return detail::round_on_cpu(parameter, exact, key);
    std::int64_t n = exact.numel();
    detail::RoundByOperators round(h_.narrow(0, 0, n), t_.narrow(0, 0, n));
    round(parameter, exact, key_, key.tensor);
  }
  void end_step(const StepGradients&, Report&) noexcept { ++round_; }
  std::string describe() const {
    return "BFloat16 weights without masters, stochastic rounding, autocast";
  }
  void state(Archive& archive, const Masters&) {
    archive.number("seed", values.seed);
    archive.number("round", round_);
  }

 private:
  static void convert(at::Tensor parameter, at::ScalarType type) {
    parameter.set_data(parameter.detach().to(type));
  }

  std::vector<std::pair<at::Tensor, at::ScalarType>> former_;
  std::int64_t round_ = 0;  // steps that were not undone
  at::Tensor key_, h_, t_;  // where numbers are not the CPU's
};

}  // namespace ikebana
