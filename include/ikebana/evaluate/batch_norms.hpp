#pragma once
// The batch norms of a model while their statistics are computed anew.
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/error.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// The batch norms of a model that track statistics: LibTorch's and those of modules/.
class BatchNorms {
 public:
  explicit BatchNorms(torch::nn::Module& root);
  bool empty() const { return all_.empty(); }
  /// Every buffer that is computed anew, also one of several batch norms, once.
  std::vector<at::Tensor> buffers() const;
  /// Adds up over ranks: each has the mean over its own `batches` batches, whose sum is returned.
  template <class Group>
  double average_over(Group& ranks, double batches, c10::Device device) const {
    const at::Tensor count = at::full({}, batches, at::dtype(at::kDouble).device(device));
    const double total = number(ranks.sum(count));
    for (const at::Tensor& t : buffers())
      if (t.is_floating_point()) t.copy_(ranks.sum(t.to(at::kDouble) * batches) / total);
      else t.copy_(ranks.sum(t));
    return total;
  }

 private:
  friend class FreshStatistics;
  template <class BatchNorm>
  void add(torch::nn::Module& module) {
    if (auto* norm = module.as<BatchNorm>()) add(RunningStatistics::of(*norm));
  }
  void add(RunningStatistics one);

  std::vector<RunningStatistics> all_;
};

/// RAII: statistics begin anew, and are the average of all batches while this exists. Restores
/// momenta and all other buffers at its end; and unless they are kept, the statistics of before.
class FreshStatistics {
 public:
  FreshStatistics(const BatchNorms& norms, torch::nn::Module& root);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  void keep() noexcept { is_kept_ = true; }

 private:
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
  bool is_statistic(const at::Tensor& buffer) const;

  const BatchNorms& norms_;
  Copies statistics_, others_;
  std::vector<std::optional<double>> momenta_;
  bool is_kept_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/batch_norms.ipp>
#endif
