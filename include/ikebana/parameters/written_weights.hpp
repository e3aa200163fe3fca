#pragma once
// Finds weights that a program writes between steps, or within with_full_weights: on several ranks
// it must write the same values on each.
#include <algorithm>
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Tells which master weights were written since the last step, by LibTorch's version counters.
/// Writes that these do not count, by data_ptr or `.data()`, are not seen.
class WrittenWeights {
 public:
  explicit WrittenWeights(const Masters& masters);
  /// Looks which were written. Is called when a step opens, or when an evaluation begins, which
  /// exchanges weights and averages.
  void look();
  /// Ignores what was written since `look`, since the trainer has written it.
  void skip() noexcept;
  /// Forgets what was written, after a step in which ranks have compared it.
  void forget() noexcept;
  /// Calls `f(name, tensor, written)` for each master weight.
  template <class F>
  void each(const F& f) const {
    for (std::size_t i = 0; i < written_.size(); ++i)
      f(masters_->names[i], masters_->values[i], bool{written_[i]});
  }

 private:
  const Masters* masters_;
  std::vector<Version> versions_;
  std::vector<bool> written_;
};

/// Throws RanksDiffer, on all ranks, if they have not written the same values. `each(f)` calls
/// `f(name, tensor)` for each tensor that was written. Costs an exchange, and a pass over these.
template <class Each>
void compare_written(RankGroup& group, const std::string& call, const Each& each) {
  std::uint64_t number = 0;
  std::string lines;
  each([&](const std::string& name, const at::Tensor& t) {
    const std::uint64_t own = content_hash(t);
    number = key(number, own);
    lines += name + ' ' + std::to_string(own) + '\n';
  });
  const auto numbers = exchange_in(group, call, std::to_string(number));
  if (std::all_of(numbers.begin(), numbers.end(), [&](const auto& n) { return n == numbers[0]; }))
    return;
  const auto all = exchange_in(group, call, lines);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string a, b;
    do {
      if (!std::getline(first, a)) a.clear();
      if (!std::getline(other, b)) b.clear();
    } while (a == b);
    const std::string name = (b.empty() ? a : b).substr(0, (b.empty() ? a : b).find(' '));
    throw RanksDiffer("with_full_weights: what was written to `" + name + "` on rank " +
                      std::to_string(rank) +
                      " is not what was written on rank 0. Write the same on every rank, as from "
                      "one file or with one seed.");
  }
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/written_weights.ipp>
#endif
