#pragma once
// Evaluates one batch, which Accumulate<Fit<>> may compute in parts, and repeat.
#include <ikebana/core/core.hpp>
#include <ikebana/evaluate/loss_sums.hpp>

namespace ikebana::detail {

/// The losses of the parts of a batch, in row order.
class PartLosses {
 public:
  PartLosses();
  ~PartLosses();
  PartLosses(const PartLosses&) = delete;
  PartLosses& operator=(const PartLosses&) = delete;
  void clear();
  void add(Loss loss, bool keeps_outputs);
  void add_to(LossSums& sums) const;
  /// Joins the outputs of the parts. Throws BadModel if the rows of a part cannot be found in its
  /// outputs.
  at::Tensor outputs() const;

 private:
  c10::SmallVector<Loss, 1> all_;
};

/// Undoes the changes of a part of an evaluation that threw and may be computed again: restores
/// buffers and random generators. Costs as much as in a step, and nothing in other recipes.
template <class Core, bool = Core::fits_memory>
class UndoPart {
 public:
  template <class F>
  void around(Core&, bool, const F& f) {
    f();
  }
};
template <class Core>
class UndoPart<Core, true> {
 public:
  /// Calls `f`, and undoes its changes if it throws. With `with_ranks`, `f` computes with other
  /// ranks, to which an exception is reported.
  template <class F>
  void around(Core& core, bool with_ranks, const F& f) {
    if (!before_) before_.emplace(core.device);
    before_->begin(*core.units.units()[0].module);
    try {
      if (with_ranks) with_others(core, f);
      else f();
      before_->commit();
    } catch (...) {
      core.parameters.abort();
      before_->restore();
      throw;
    }
  }

 private:
  template <class F>
  static void with_others(Core& core, const F& f) {
    reported_to_ranks(core, [&] {
      core.mechanisms.shard.open_step();
      f();
    });
  }

  std::optional<RestorePoint> before_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/batch_parts.ipp>
#endif
