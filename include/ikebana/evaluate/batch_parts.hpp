#pragma once
// One batch of an evaluation, which Accumulate<Fit<>> may compute in parts, and again.
#include <ikebana/core/around_step.hpp>
#include <ikebana/evaluate/loss_sums.hpp>

namespace ikebana::detail {

/// The losses of the parts of a batch, in row order.
class PartLosses {
 public:
  void clear() { all_.clear(); }
  void add(Loss loss, bool keeps_outputs) {
    if (!keeps_outputs) loss.outputs.reset();
    all_.push_back(std::move(loss));
  }
  void add_to(LossSums& sums) const {
    for (const Loss& loss : all_) sums.add(loss);
  }
  /// Those of the batch. Throws BadModel where the rows of parts cannot be found in them.
  at::Tensor outputs() const {
    if (all_.size() == 1) return all_[0].outputs;
    std::vector<at::Tensor> parts;
    for (const Loss& loss : all_)
      if (loss.outputs.defined()) parts.push_back(loss.outputs);
    if (parts.empty()) return {};
    for (const at::Tensor& part : parts)
      if (part.dim() == 0 || parts.size() != all_.size() ||
          part.sizes().slice(1) != parts[0].sizes().slice(1))
        throw BadModel(
            "evaluate: memory ran out, so a batch was computed in parts, and their Loss::outputs "
            "of shapes " +
            c10::str(parts[0].sizes()) + " and " + c10::str(part.sizes()) +
            " cannot be joined along dimension 0, where the rows of a batch are to be. Let the "
            "loss return such outputs, or evaluate smaller batches.");
    return at::cat(parts);
  }

 private:
  c10::SmallVector<Loss, 1> all_;
};

/// Undoes what a part of an evaluation did that threw and may be computed again: buffers and random
/// generators are as they were. Costs what that costs a step. Nothing in other recipes.
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
  /// `with_ranks`: `f` computes with other ranks, which hear where it throws.
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
