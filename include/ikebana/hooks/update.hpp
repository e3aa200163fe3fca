#pragma once
// Asks an optimizer for its update, and undoes the update.
#include <ikebana/detail/flag_copy.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/hooks/common.hpp>
#include <optional>

namespace ikebana::detail {

/// Returns true if the host knows already that the update is skipped. On a device the update itself
/// reads the flag.
bool rejected(const StepGradients& gradients);

/// True for an optimizer that divides by `StepGradients::divisor` itself, changes nothing if
/// `found_inf` is set, and puts back in `abort` what a failed update changed. The library's
/// optimizers declare it.
template <class Optimizer>
inline constexpr bool takes_divisor = false;
template <class Optimizer>
  requires requires { Optimizer::takes_divisor; }
inline constexpr bool takes_divisor<Optimizer> = Optimizer::takes_divisor;

/// Throws BadValue if an optimizer whose update of an element depends on other elements of its
/// parameter gets a slice.
template <class Policy>
void refuse_slice(const Masters& masters, std::size_t i) {
  if (!masters.is_whole(i))
    throw BadValue(type_name<Policy>() + ": `" + masters.names[i] + "` of shape " +
                   c10::str(at::IntArrayRef(masters.slices[i].sizes)) +
                   " is cut into slices, and its update needs whole parameters. Write an optimizer "
                   "that updates by elements, such as AdamW, or, if yours does, declare `static "
                   "constexpr bool by_elements = true;` in its mechanism.");
}

/// Throws BadValue if a user's own optimizer gets a slice, unless it declares that it updates by
/// elements. The library's optimizers themselves check what they are given.
template <class Optimizer>
void refuse_slices(const Masters& masters) {
  using Policy = std::decay_t<decltype(std::declval<Optimizer&>().values)>;
  if constexpr (!takes_divisor<Optimizer> && !Optimizer::by_elements)
    for (std::size_t i = 0; i < masters.names.size(); ++i) refuse_slice<Policy>(masters, i);
}

/// Makes the update of an optimizer that does not declare `takes_divisor`. If its `update` may
/// throw, or only the device knows whether the step is rejected, copies the master weights and what
/// the optimizer's `state` lists before, and puts them back. One object serves an optimizer in all
/// steps.
template <class Optimizer>
class Update {
 public:
  /// Before `prepare`: from here on the gradients are the true ones.
  void begin(Optimizer& optimizer, const Masters& masters, StepGradients& gradients) {
    settle(optimizer, masters);
    gradients.apply_divisor();
  }
  void operator()(Optimizer& optimizer, const Masters& masters, StepGradients& gradients) {
    if (masters.rounding != nullptr) refuse_rounding();
    if (masters.storage != nullptr) refuse_storage();
    const bool on_device = gradients.found_inf.defined() && !readable(gradients.found_inf);
    const at::NoGradGuard no_grad;
    if (!noexcept(optimizer.update(masters, gradients)) || on_device || keeps_copies_)
      keep(optimizer, masters);
    optimizer.update(masters, gradients);
    if (!on_device) return;
    copies_.put_back_if(gradients.found_inf);
    if (!recording()) rejected_.emplace(gradients.found_inf);
  }
  /// From now on `abort` undoes an update that has ended, too: another one may fail after it.
  void keep_copies(Optimizer&) noexcept { keeps_copies_ = true; }
  /// The step is committed.
  void end_step() noexcept {
    is_kept_ = false;
    if (rejected_) return copies_.clear_device();
    copies_.clear(), kept_.clear();
  }
  /// After an exception: undoes what the update of this step changed.
  void abort(Optimizer& optimizer, const Masters& masters) noexcept {
    if (!std::exchange(is_kept_, false)) return;
    rejected_.reset();
    undo(optimizer, masters);
  }
  /// If the device rejected the last update, it has put back its tensors. This puts back tensors on
  /// the host and numbers, too, and drops what the update created. The policy's values stay,
  /// because a user may have changed them. Is called before the optimizer's state is used. Waits
  /// for that update. Throws BadModel if a state could not be put back.
  void settle(Optimizer& optimizer, const Masters& masters) {
    if (rejected_) {
      const bool rejected = rejected_->wait();
      rejected_.reset();
      if (rejected) undo_all_but_values(optimizer, masters);
      copies_.clear(), kept_.clear();
    }
    if (!lost_.empty())
      throw BadModel(policy_name() + ": an update was undone, and its state was not: " + lost_ +
                     ". Let state(Archive&) list the same names before an update and after it, "
                     "with `optional` for a tensor that an update makes. Load the last saved "
                     "state into a new trainer.");
  }

 private:
  void keep(Optimizer& optimizer, const Masters& masters) {
    copies_.clear(), kept_.clear();
    Archive archive(kept_, Archive::Mode::Save);
    archive.begin_section("undo");
    optimizer.state(archive, masters);
    for (const at::Tensor& master : masters.values) copies_.keep(master);
    for (const auto& [name, tensor] : kept_) copies_.keep(tensor);
    is_kept_ = true;
  }
  void undo(Optimizer& optimizer, const Masters& masters) noexcept {
    copies_.put_back();
    Archive archive(kept_, Archive::Mode::Undo);
    archive.begin_section("undo");
    optimizer.state(archive, masters);
    lost_ = archive.finish_undo();
    kept_.clear();
  }
  void undo_all_but_values(Optimizer& optimizer, const Masters& masters) {
    if constexpr (std::is_copy_constructible_v<decltype(Optimizer::values)>) {
      auto values = optimizer.values;
      undo(optimizer, masters);
      optimizer.values = std::move(values);
    } else {
      undo(optimizer, masters);
    }
  }
  static std::string policy_name() {
    return type_name<std::decay_t<decltype(std::declval<Optimizer&>().values)>>();
  }
  [[noreturn]] static void refuse_rounding() {
    throw BadValue(
        "Precision<BF16True>: it rounds updates stochastically that an optimizer computes in FP32, "
        "and `" +
        policy_name() +
        "` updates the BF16 weights by itself. Write one of the library's optimizers, or "
        "Precision<BF16Weights>.");
  }
  [[noreturn]] static void refuse_storage() {
    throw BadValue(
        "optimizer: a policy of the recipe stores the state of optimizers apart, and `" +
        policy_name() +
        "` keeps its own. Write one of the library's optimizers, or leave that policy out.");
  }

  UpdateCopies copies_;  // the copies, from the update of a step to its end
  StateDict kept_;       // what `state` listed: the tensors themselves, and numbers as they were
  bool is_kept_ = false, keeps_copies_ = false;
  std::string lost_;                  // what an undone update left in the state
  std::optional<FlagCopy> rejected_;  // whether the last update was rejected, if only the device
                                      // knows
};

/// An optimizer that does all of that itself. Fused operators read a Float divisor, so a Double one
/// is applied here.
template <class Optimizer>
  requires takes_divisor<Optimizer>
class Update<Optimizer> {
 public:
  void begin(Optimizer&, const Masters&, StepGradients& gradients) {
    if (gradients.divisor.defined() && gradients.divisor.scalar_type() != at::kFloat)
      gradients.apply_divisor();
  }
  void operator()(Optimizer& optimizer, const Masters& masters,
                  StepGradients& gradients) noexcept(noexcept(optimizer.update(masters,
                                                                               gradients))) {
    optimizer.update(masters, gradients);
  }
  void keep_copies(Optimizer& optimizer) noexcept {
    if constexpr (requires { optimizer.keep_copies(); }) optimizer.keep_copies();
  }
  void end_step() noexcept {}
  void abort(Optimizer&, const Masters&) noexcept {}
  void settle(Optimizer&, const Masters&) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/hooks/impl/update.ipp>
#endif
