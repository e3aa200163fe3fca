#pragma once
// Sums of metrics: over batches on the device of the outputs, over ranks, and in saved states.
#include <ikebana/detail/torch.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <initializer_list>
#include <string>
#include <vector>

namespace ikebana {
class Archive;
}  // namespace ikebana

namespace ikebana::detail {

/// Adds up tensors over all ranks, on the host, because a rank without a batch knows no device. A
/// rank that has none is given zeros. Throws BadModel, on all ranks, if their shapes differ.
std::vector<at::Tensor> sum_over(RankGroup& ranks, const std::string& metric,
                                 std::vector<at::Tensor> own);

/// The tensors that a metric adds up. The first batch gives their shapes. No tensor is changed in
/// place, so copies may share them.
class MetricSums {
 public:
  /// A sum as a state lists it. Float stands for Double as well.
  struct Listed {
    const char* name;
    at::ScalarType dtype;
    std::int64_t dim;
  };

  bool empty() const { return all_.empty(); }
  /// Returns sum `i`, on the device.
  const at::Tensor& operator[](std::size_t i) const { return all_[i]; }
  /// Returns sum `i` on the host, in double precision. Waits for the device.
  at::Tensor on_host(std::size_t i) const;
  /// Returns a sum of one element. Waits for the device.
  double number(std::size_t i) const { return on_host(i).item<double>(); }
  /// Adds a batch. Throws BadBatch, in the name of `metric`, if a shape was another one before.
  void add(const std::string& metric, std::vector<at::Tensor> batch);
  void set(std::vector<at::Tensor> all) { all_ = std::move(all); }
  const std::vector<at::Tensor>& all() const { return all_; }
  /// Replaces the sums by the sums of all ranks.
  void reduce(const std::string& metric, RankGroup& ranks) {
    all_ = sum_over(ranks, metric, std::move(all_));
  }
  void state(Archive& archive, std::initializer_list<Listed> listed);

 private:
  std::vector<at::Tensor> all_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/metric_sums.ipp>
#endif
