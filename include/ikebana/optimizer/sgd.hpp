#pragma once
#include <ikebana/optimizer/grouped.hpp>

namespace ikebana {

/// Stochastic gradient descent with momentum, by one fused operator a group. One buffer in the
/// parameters' type where momentum is not 0. Fields and defaults as torch.optim.SGD.
struct SGD {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
  std::vector<Group> groups = {};
};

template <>
struct Mechanism<SGD> : detail::Grouped<SGD> {
  explicit Mechanism(SGD v) : Grouped(std::move(v), {{"momentum_buffer"}}) { check_values(); }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_buckets(masters, gradients, rate, kinds());
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    update_buckets(gradients, [&](detail::Bucket& b, const auto& divisor, const auto& found_inf) {
      at::_fused_sgd_(b.parameters, b.gradients, values.momentum == 0 ? Tensors{} : b.state[0],
                      b.weight_decay, values.momentum, b.lr, values.dampening, values.nesterov,
                      values.maximize, b.first_step, divisor, found_inf);
    });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", momentum=" + c10::str(values.momentum) +
           ", weight_decay=" + c10::str(values.weight_decay) +
           (values.nesterov ? ", nesterov" : "") + (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) {
    archive.number("lr", values.lr);
    archive.number("momentum", values.momentum);
    archive.number("weight_decay", values.weight_decay);
    save(archive, masters, kinds());
  }

 private:
  std::size_t kinds() const { return values.momentum == 0 ? 0 : 1; }
  void check_values() const {
    check_rate();
    check(values.momentum >= 0, "momentum is negative.");
    check(!values.nesterov || (values.momentum > 0 && values.dampening == 0),
          "nesterov needs a momentum and no dampening.");
  }
};

}  // namespace ikebana
