#pragma once
// How an optimizer is asked for its update, and how the update is undone.
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// True for an optimizer that divides by `StepGradients::divisor` itself, changes nothing where
/// `found_inf` is set, and puts back in `abort` what a failed update changed. The library's
/// optimizers declare it.
template <class Optimizer>
inline constexpr bool takes_divisor = false;
template <class Optimizer>
  requires requires { Optimizer::takes_divisor; }
inline constexpr bool takes_divisor<Optimizer> = Optimizer::takes_divisor;

/// Before the update: optimizers that declare nothing are given true gradients. Fused operators
/// read a Float divisor, so a Double one is applied here.
template <class Optimizer>
void settle_divisor(const Optimizer&, StepGradients& gradients) {
  if (!gradients.divisor.defined()) return;
  if (!takes_divisor<Optimizer> || gradients.divisor.scalar_type() != at::kFloat)
    gradients.apply_divisor();
}

/// One update by an optimizer that declares nothing. Where its `update` may throw, or only the
/// device knows whether the step is rejected, the master weights and what the optimizer's `state`
/// lists are copied before, and put back.
template <class Optimizer>
class Update {
 public:
  void operator()(Optimizer& optimizer, const Masters& masters, StepGradients& gradients) {
    if (masters.rounding != nullptr) refuse_rounding();
    const bool rejected_on_device = gradients.found_inf.defined() && !readable(gradients.found_inf);
    if (!noexcept(optimizer.update(masters, gradients)) || rejected_on_device)
      keep(optimizer, masters);
    optimizer.update(masters, gradients);
    if (rejected_on_device) copies_.put_back_if(gradients.found_inf);
  }
  /// After an exception: undoes what the update changed.
  void put_back(Optimizer& optimizer, const Masters& masters) noexcept {
    copies_.put_back();
    if (!std::exchange(has_kept_, false)) return;
    Archive archive(kept_, Archive::Mode::Undo);
    archive.begin_section("undo");
    optimizer.state(archive, masters);
    kept_.clear();
  }
  void clear() noexcept { copies_.clear(), kept_.clear(), has_kept_ = false; }

 private:
  void keep(Optimizer& optimizer, const Masters& masters) {
    Archive archive(kept_, Archive::Mode::Save);
    archive.begin_section("undo");
    optimizer.state(archive, masters);
    for (const at::Tensor& master : masters.values) copies_.keep(master);
    for (const auto& [name, tensor] : kept_) copies_.keep(tensor);
    has_kept_ = true;
  }
  [[noreturn]] static void refuse_rounding() {
    throw BadValue(
        "Precision<BF16True>: it rounds updates stochastically that an optimizer computes in FP32, "
        "and `" +
        type_name<std::decay_t<decltype(std::declval<Optimizer&>().values)>>() +
        "` updates the BF16 weights by itself. Write one of the library's optimizers, or "
        "Precision<BF16Weights>.");
  }

  UpdateCopies copies_;
  StateDict kept_;  // what `state` listed: tensors themselves, and numbers as they were
  bool has_kept_ = false;
};

template <class Optimizer>
  requires takes_divisor<Optimizer>
class Update<Optimizer> {
 public:
  void operator()(Optimizer& optimizer, const Masters& masters,
                  StepGradients& gradients) noexcept(noexcept(optimizer.update(masters,
                                                                               gradients))) {
    optimizer.update(masters, gradients);
  }
  void put_back(Optimizer&, const Masters&) noexcept {}
  void clear() noexcept {}
};

}  // namespace ikebana::detail
