#pragma once
// Updates by AdamW the parameters that the recipe's optimizer (Muon, SparseAdam) cannot update.
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/optimizer/adamw.hpp>

namespace ikebana::detail {

/// The mechanism of an optimizer within `Combined`: without the AdamW of a field `otherwise`, since
/// another optimizer updates the other parameters.
template <class Policy>
struct without_fallback {
  using type = Mechanism<Policy>;
};

/// Divides a step's gradients between the recipe's optimizer and an AdamW, which has the values of
/// the policy's field `otherwise`.
class FallbackOptimizer {
 public:
  Mechanism<AdamW> mechanism;
  explicit FallbackOptimizer(AdamW values) : mechanism(std::move(values)) {}

  /// Prepares AdamW's update of the gradients for which `is_primary(master, gradient)` is false.
  /// Returns the others.
  StepGradients& prepare(const AdamW& values, const Masters& masters,
                         const StepGradients& gradients, const RateRef& rate,
                         c10::function_ref<bool(std::size_t, const at::Tensor&)> is_primary);
  /// Returns the gradients of the recipe's optimizer.
  StepGradients& primary() { return primary_; }
  void update(const Masters& masters) noexcept { mechanism.update(masters, fallback_); }
  void end_step(Report& report) noexcept;
  void abort() noexcept;
  void state(Archive& archive, AdamW& values, const Masters& masters);

 private:
  void forget_gradients() noexcept { primary_.values.clear(), fallback_.values.clear(); }

  StepGradients primary_, fallback_;
};

/// An optimizer of part of the parameters, and AdamW for the others, with the values of the
/// policy's field `otherwise`. The derived mechanism divides the gradients between them.
template <class Part>
class WithFallback : public Part {
 public:
  template <class Policy>
  explicit WithFallback(Policy v) : Part(std::move(v)), fallback_(this->values.otherwise) {}

  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    Part::each_rate(rate, visit);
    fallback_.mechanism.each_rate(rate, visit);
  }
  void update(const Masters& masters, StepGradients&) {
    Part::update(masters, fallback_.primary());
    fallback_.update(masters);
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    Part::end_step(fallback_.primary(), report);
    fallback_.end_step(report);
  }
  void abort() noexcept {
    Part::abort();
    fallback_.abort();
  }
  void keep_copies() noexcept { Part::keep_copies(), fallback_.mechanism.keep_copies(); }
  template <class Visit>
    requires lists_numbers<Part>
  void each_number(const Visit& visit) {
    Part::each_number(visit);
    fallback_.mechanism.each_number(visit);
  }
  template <class Rate>
  void set_numbers(const Rate& rate) {
    Part::set_numbers(rate);
    fallback_.mechanism.values = this->values.otherwise;
    fallback_.mechanism.set_numbers(rate);
  }
  std::string describe() const {
    return Part::describe() + ", otherwise AdamW {" +
           Mechanism<AdamW>(this->values.otherwise).describe() + "}";
  }
  void state(Archive& archive, const Masters& masters) {
    Part::state(archive, masters);
    fallback_.state(archive, this->values.otherwise, masters);
  }

 protected:
  FallbackOptimizer fallback_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/fallback_optimizer.ipp>
#endif
