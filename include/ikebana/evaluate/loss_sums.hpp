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
  /// The names and scales of all terms, which ranks compare; empty where nothing was added.
  std::string terms() const;
  /// Another rank has these terms: without any of its own, this one takes them, with nothing added.
  /// Throws BadModel where it has others.
  void take_terms(const std::string& others, c10::Device device);
  /// The sums and counts of all ranks.
  void sum_over(RankGroup& ranks);
  /// Waits for the device. Throws BadBatch for a term whose count is 0.
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
