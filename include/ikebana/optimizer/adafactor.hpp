#pragma once
// The mechanism of Adafactor.
#include <ikebana/detail/slice.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/matrices/adafactor_step.hpp>

namespace ikebana {

namespace detail {

/// The slot that holds means over dimension `dim` of a parameter: whether it fits, and a new one.
template <int dim>
bool means_match(const at::Tensor& state, const at::Tensor& p) {
  return p.dim() > 1 && state.sizes() == at::IntArrayRef(reduced_shape(p, dim)) &&
         state.dtype() == p.dtype() && state.device() == p.device();
}
template <int dim>
at::Tensor means_of(const at::Tensor& p, const Slice&) {
  return p.dim() > 1 ? at::zeros(reduced_shape(p, dim), p.options()) : at::Tensor();
}

}  // namespace detail

template <>
struct Mechanism<Adafactor> : detail::PerParameterOptimizer<Adafactor> {
  explicit Mechanism(Adafactor v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 3, [](const at::Tensor& p, const at::Tensor&) {
      return detail::AdafactorStep::scratch(p);
    });
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 3); }

 private:
  static std::vector<detail::Slot> state_slots();
  void check_values() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/adafactor.ipp>
#endif
