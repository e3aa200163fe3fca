#pragma once
// The loss of an evaluation: sums over batches and ranks.
#include <cstring>
#include <ikebana/loss.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Sums a loss over batches, in double precision, on the device.
class LossSums {
 public:
  void add(const Loss& loss);
  /// Returns the names and scales of all terms, which ranks compare; empty if nothing was added.
  std::string terms() const;
  /// Takes the terms of another rank, with nothing added, if this rank has no terms. Throws
  /// BadModel if it has other terms.
  void take_terms(const std::string& others, c10::Device device);
  /// Replaces sums and counts by those over all ranks.
  void sum_over(RankGroup& ranks);
  /// Returns the mean loss. Waits for the device. Throws BadBatch for a term whose count is 0.
  double mean() const;
  double count() const { return sums_.empty() ? 0 : sums_[0].count.value(); }

 private:
  struct Sum {
    std::string name;
    at::Tensor sum;
    Count count;
    double scale;
  };
  void add(std::size_t i, const std::string& name, const at::Tensor& sum, const Count& count,
           double scale);
  std::vector<Sum> sums_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/loss_sums.ipp>
#endif
