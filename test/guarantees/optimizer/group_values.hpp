#pragma once
// Defines a parameter group with other values than its optimizer, and a schedule of the momentum.
#include "alone.hpp"

namespace guarantees::group_values {

using All = Choices<AdamW, Adam, SGD, Adagrad, Adafactor, Lion, Muon, SparseAdam, AdamW8bit,
                    RMSprop, NAdam, RAdam, Adamax, Adadelta, ASGD, Rprop, LAMB>;
using Halves = Choices<AdamW, SGD, Lion, Muon>;

/// A schedule of the momentum alone.
struct MomentumRamp {
  using axis = ikebana::axis::schedule;
  double from = 0, to = 0.9;  // in four steps
};

}  // namespace guarantees::group_values

template <>
struct ikebana::Mechanism<guarantees::group_values::MomentumRamp> : ikebana::ScheduleHooks {
  guarantees::group_values::MomentumRamp values;
  explicit Mechanism(guarantees::group_values::MomentumRamp v) : values(v) {}
  double momentum(double, std::int64_t step) const {
    return values.from + (values.to - values.from) * std::min(1.0, static_cast<double>(step) / 4);
  }
};

namespace guarantees::group_values {

using Ramp = Mechanism<MomentumRamp>;
constexpr const char* chosen = "linear_weight";  // a matrix, so that Muon and SparseAdam update it

/// Gives `to`, which is a policy or a group, other values of all fields that `Policy` has.
template <class Policy>
void set_others(auto& to) {
  to.lr = 0.02;
  if constexpr (requires(Policy v) { v.weight_decay; }) to.weight_decay = 0.3;
  if constexpr (requires(Policy v) { v.betas; }) to.betas = std::array{0.7, 0.95};
  if constexpr (requires(Policy v) { v.momentum; }) to.momentum = 0.6;
  if constexpr (requires(Policy v) { requires std::same_as<decltype(v.eps), double>; })
    to.eps = 1e-3;
}
template <class Policy>
Policy with_group() {
  Policy policy = lively<Policy>();
  policy.groups = {{.match = named(chosen)}};
  set_others<Policy>(policy.groups[0]);
  return policy;
}
template <class Policy>
Policy with_others() {
  Policy policy = lively<Policy>();
  set_others<Policy>(policy);
  return policy;
}

/// Checks that one parameter is as in `own`, and all others as in `plain`, to the bit.
inline void check_apart(const StateDict& grouped, const StateDict& own, const StateDict& plain) {
  for (const auto& [name, tensor] : grouped) {
    if (test::contains(name, "groups.") || name.ends_with(".lr") || name.ends_with("momentum") ||
        name.ends_with("weight_decay"))
      continue;
    CAPTURE(name);
    const bool is_chosen = test::contains(name, chosen);
    CHECK(test::same_bits(tensor, (is_chosen ? own : plain).at(name)));
  }
  CHECK_FALSE(test::same_bits(own.at(chosen), plain.at(chosen)));
}

}  // namespace guarantees::group_values
