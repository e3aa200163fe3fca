#pragma once
// An optimizer as an author of policies writes it, who knows nothing of divisors, loss scales and
// rejected steps.
#include <ikebana.hpp>

namespace test {

/// SGD with momentum 0.9. Its buffers are made in the first update and changed in place; it counts
/// its updates by a number, by a tensor that it replaces and by one that it changes in place.
/// Throws after the update of one parameter.
struct OwnMomentum {
  using axis = ikebana::axis::optimizer;
  double lr = 0.1;
  std::size_t fails_at = static_cast<std::size_t>(-1);
};

}  // namespace test

template <>
struct ikebana::Mechanism<test::OwnMomentum> : ikebana::OptimizerHooks {
  test::OwnMomentum values;
  double lr = 0;
  std::int64_t count = 0;
  at::Tensor replaced = at::zeros({}, at::kLong), in_place = at::zeros({}, at::kLong);
  Tensors buffers;

  explicit Mechanism(test::OwnMomentum v) : values(v) {}
  double base_lr() const { return values.lr; }
  void begin(const Masters& masters) { buffers.resize(masters.values.size()); }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    lr = rate(values.lr);
  }
  void update(const Masters& masters, StepGradients& gradients) {
    const at::NoGradGuard no_grad;
    ++count;
    replaced = replaced + 1;
    in_place.add_(1);
    for (std::size_t k = 0; k < gradients.indices.size(); ++k) {
      const std::size_t i = gradients.indices[k];
      if (!buffers[i].defined()) buffers[i] = at::zeros_like(masters.values[i]);
      buffers[i].mul_(0.9).add_(gradients.values[k]);
      masters.values[i].add_(buffers[i], -lr);
      if (k == values.fails_at) throw std::runtime_error("in the middle");
    }
  }
  void state(Archive& archive, const Masters& masters) {
    archive.number("lr", values.lr);
    archive.number("count", count);
    archive.tensor("replaced", replaced);
    archive.tensor("in_place", in_place);
    for (std::size_t i = 0; i < buffers.size(); ++i)
      archive.optional(masters.names[i] + ".buffer", buffers[i], masters.values[i]);
  }
};
