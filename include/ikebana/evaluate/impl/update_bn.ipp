#pragma once
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/update_bn.hpp>

namespace ikebana::detail {

IKEBANA_INLINE BatchNorms::BatchNorms(torch::nn::Module& root) {
  for (const auto& module : each_once(root.modules())) {
    add<torch::nn::BatchNorm1dImpl>(*module), add<torch::nn::BatchNorm2dImpl>(*module);
    add<torch::nn::BatchNorm3dImpl>(*module);
    if (auto* own = dynamic_cast<HasRunningStatistics*>(module.get()))
      add(own->running_statistics());
  }
}

IKEBANA_INLINE std::vector<at::Tensor> BatchNorms::buffers() const {
  std::vector<at::Tensor> buffers;
  for (const auto& one : all_)
    for (const at::Tensor& t : {one.mean, one.var, one.batches})
      if (t.defined()) buffers.push_back(t);
  return each_once(buffers);
}

IKEBANA_INLINE void BatchNorms::add(RunningStatistics one) {
  if (one.mean.defined() && one.var.defined()) all_.push_back(std::move(one));
}

IKEBANA_INLINE FreshStatistics::FreshStatistics(const BatchNorms& norms, torch::nn::Module& root)
    : norms_(norms) {
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

IKEBANA_INLINE FreshStatistics::~FreshStatistics() {
  for (std::size_t i = 0; i < momenta_.size(); ++i) *norms_.all_[i].momentum = momenta_[i];
  for (auto& [buffer, former] : others_) buffer.copy_(former);
  if (is_kept_) return;
  for (auto& [buffer, former] : statistics_) buffer.copy_(former);
}

IKEBANA_INLINE bool FreshStatistics::is_statistic(const at::Tensor& buffer) const {
  for (const auto& [one, former] : statistics_)
    if (one.is_same(buffer)) return true;
  return false;
}

}  // namespace ikebana::detail
