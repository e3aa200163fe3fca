#pragma once
// For which microbatches a plan holds.
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/detail/tensors.hpp>
#include <vector>

namespace ikebana::detail {

/// The sizes of every tensor of some microbatches, the largest in each dimension.
class BatchSizes {
 public:
  template <class Microbatch>
  void add(const Microbatch& microbatch) {
    std::vector<c10::DimVector> sizes;
    for_each_tensor(microbatch, [&](const at::Tensor& t) {
      sizes.push_back(t.defined() ? c10::DimVector(t.sizes()) : c10::DimVector());
    });
    if (is_empty_) all_ = std::move(sizes), is_empty_ = false;
    else if (!raise(sizes)) differ_ = true;
  }
  bool empty() const { return is_empty_; }
  /// True where no tensor of `other` is larger in any dimension.
  bool cover(const BatchSizes& other) const;

 private:
  bool raise(const std::vector<c10::DimVector>& sizes);

  std::vector<c10::DimVector> all_;
  bool is_empty_ = true;
  bool differ_ = false;  // they do not even have as many tensors, or dimensions
};

/// The microbatches of a step: during the first there are no gradients yet, and during the others
/// there are.
struct StepSizes {
  BatchSizes first, others;

  template <class Microbatches>
  static StepSizes of(const Microbatches& microbatches) {
    StepSizes sizes;
    bool is_first = true;
    for (const auto& microbatch : microbatches)
      (std::exchange(is_first, false) ? sizes.first : sizes.others).add(microbatch);
    return sizes;
  }
  bool cover(const StepSizes& other) const;
};

/// What was measured for some microbatches, and the plan made from it.
struct PlannedBatches {
  StepSizes sizes;
  Costs costs;              ///< relative to the bytes in use when a step begins; of this rank
  std::int64_t inputs = 0;  ///< bytes that Full keeps
  Costs planned;            ///< of all ranks, as the plan was made from them
  Plan plan;
  bool is_dry = false;  ///< measured without values, so that times say little
  bool has_plan = false;
  std::int64_t budget = 0, level = 0;  ///< for which the plan was made: of this rank
  Prediction predicted = {};
  std::vector<double> seconds = {};  ///< of the latest steps by this plan

  void note_seconds(double one);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/planned_batches.ipp>
#endif
