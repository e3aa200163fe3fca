#pragma once
// The batch norms of a model while their statistics are computed anew.
#include <ikebana/detail/each_once.hpp>
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
  explicit BatchNorms(torch::nn::Module& root) {
    for (const auto& module : each_once(root.modules())) {
      add<torch::nn::BatchNorm1dImpl>(*module), add<torch::nn::BatchNorm2dImpl>(*module);
      add<torch::nn::BatchNorm3dImpl>(*module);
      if (auto* own = dynamic_cast<HasRunningStatistics*>(module.get()))
        add(own->running_statistics());
    }
  }
  bool empty() const { return all_.empty(); }
  /// Every buffer that is computed anew, also one of several batch norms, once.
  std::vector<at::Tensor> buffers() const {
    std::vector<at::Tensor> buffers;
    for (const auto& one : all_)
      for (const at::Tensor& t : {one.mean, one.var, one.batches})
        if (t.defined()) buffers.push_back(t);
    return each_once(buffers);
  }
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
  void add(RunningStatistics one) {
    if (one.mean.defined() && one.var.defined()) all_.push_back(std::move(one));
  }

  std::vector<RunningStatistics> all_;
};

/// RAII: statistics begin anew, and are the average of all batches while this exists. Restores
/// momenta and all other buffers at its end; and unless they are kept, the statistics of before.
class FreshStatistics {
 public:
  FreshStatistics(const BatchNorms& norms, torch::nn::Module& root) : norms_(norms) {
    for (const at::Tensor& t : norms_.buffers()) statistics_.emplace_back(t, t.clone());
    for (const at::Tensor& t : each_once(root.buffers()))
      if (!is_statistic(t) && at::has_internal_overlap(t) != at::MemOverlap::Yes)
        others_.emplace_back(t, t.clone());
    for (const auto& one : norms_.all_) momenta_.push_back(std::exchange(*one.momentum, {}));
    for (const auto& one : norms_.all_) {
      one.mean.zero_(), one.var.fill_(1);
      if (one.batches.defined()) one.batches.zero_();
    }
  }
  ~FreshStatistics() {
    for (std::size_t i = 0; i < momenta_.size(); ++i) *norms_.all_[i].momentum = momenta_[i];
    for (auto& [buffer, former] : others_) buffer.copy_(former);
    if (is_kept_) return;
    for (auto& [buffer, former] : statistics_) buffer.copy_(former);
  }
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  void keep() noexcept { is_kept_ = true; }

 private:
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
  bool is_statistic(const at::Tensor& buffer) const {
    for (const auto& [one, former] : statistics_)
      if (one.is_same(buffer)) return true;
    return false;
  }

  const BatchNorms& norms_;
  Copies statistics_, others_;
  std::vector<std::optional<double>> momenta_;
  bool is_kept_ = false;
};

}  // namespace ikebana::detail
