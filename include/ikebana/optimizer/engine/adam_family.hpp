#pragma once
// Defines the base of Adam and AdamW: state, checks and the arguments of their fused operators.
#include <ikebana/optimizer/engine/grouped.hpp>

namespace ikebana::detail {

/// Throws BadValue for values that Adam refuses.
void check_adam(const PolicyValues& v);
std::string describe_adam(const PolicyValues& v, bool amsgrad, bool maximize);

template <class Policy>
class AdamFamily : public GroupedOptimizer<Policy> {
 public:
  explicit AdamFamily(Policy v)
      : GroupedOptimizer<Policy>(v, {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq"}},
                                 v.amsgrad ? 3 : 2) {
    this->rate_is_number_ = true;
    check_values();
  }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    this->prepare_buckets(masters, gradients, rate, state_slots(), fused_gradient);
    this->keep_if_asked();
  }
  std::string describe() const {
    return describe_adam(this->policy_values(), this->values.amsgrad, this->values.maximize);
  }
  void state(Archive& archive, const Masters& masters) {
    this->save(archive, masters, state_slots());
  }

 private:
  std::size_t state_slots() const { return this->values.amsgrad ? 3 : 2; }
  void check_values() const { check_adam(this->policy_values()); }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/adam_family.ipp>
#endif
