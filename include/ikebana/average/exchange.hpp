#pragma once
// The exchange of averages and weights around an evaluation.
#include <ikebana/average/averages.hpp>

namespace ikebana::detail {

/// Exchanges averages and values for its lifetime. Calls `mark_stale` after each exchange.
template <class Refresh>
class ExchangeGuard {
 public:
  ExchangeGuard(std::vector<Averages*> all, Refresh mark_stale)
      : all_(std::move(all)), mark_stale_(mark_stale) {
    for (auto* averages : all_) scratch_.push_back(averages->scratch());
    exchange(/*back=*/false);
  }
  ~ExchangeGuard() { exchange(/*back=*/true); }
  ExchangeGuard(const ExchangeGuard&) = delete;
  ExchangeGuard& operator=(const ExchangeGuard&) = delete;

 private:
  void exchange(bool back) noexcept {
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const std::size_t i = back ? all_.size() - 1 - k : k;
      all_[i]->exchange(scratch_[i], back);
    }
    mark_stale_();
  }

  std::vector<Averages*> all_;
  Refresh mark_stale_;
  std::vector<Tensors> scratch_;
};

}  // namespace ikebana::detail
