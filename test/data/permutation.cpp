// Tests the order of an epoch: a bijection, a function of its key alone, and uniformly distributed.
#include "test.hpp"

#include <ikebana/data/permutation.hpp>
#include <map>
#include <numeric>
#include <set>

using namespace ikebana;

namespace test::permutation {

std::vector<std::int64_t> order(std::int64_t n, std::uint64_t key) {
  Permutation permutation(n, key);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(permutation[i]);
  return all;
}

/// Returns how far counts are from being equal, in standard deviations of chi-square.
double deviations(const std::vector<std::int64_t>& counts, double freedom) {
  double all = double(std::reduce(counts.begin(), counts.end())), sum = 0;
  double expected = all / double(counts.size());
  for (auto count : counts) sum += (double(count) - expected) * (double(count) - expected);
  return (sum / expected - freedom) / std::sqrt(2 * freedom);
}

TEST_CASE("permutation: a bijection for any number of samples") {
  for (std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 31, 32, 33, 127, 128, 129, 1000, 65537})
    for (std::uint64_t key : {0, 1, 99}) {
      auto all = order(n, key);
      std::sort(all.begin(), all.end());
      std::vector<std::int64_t> expected(all.size());
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(all == expected);
    }
}

TEST_CASE("permutation: for sizes that no list could hold, values are in range and differ") {
  for (std::int64_t n : {std::int64_t{1} << 40, (std::int64_t{1} << 62) + 1}) {
    Permutation permutation(n, 5);
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 1000; ++i) {
      auto value = permutation[n - 1 - i];
      CHECK((value >= 0 && value < n));
      seen.insert(value);
    }
    CHECK(seen.size() == 1000);
  }
}

TEST_CASE("permutation: the values are the same on every machine and with every LibTorch") {
  CHECK(order(10, 42) == std::vector<std::int64_t>{0, 4, 5, 2, 6, 3, 8, 1, 7, 9});
  CHECK(Permutation(60000, 7)[12345] == 59023);
  CHECK(ikebana::detail::mix(ikebana::detail::golden) ==
        0xe220a8397b1dcdaf);  // SplitMix64's first from seed 0
}

TEST_CASE("permutation: another key gives another order") {
  std::set<std::vector<std::int64_t>> seen;
  for (std::uint64_t key = 0; key < 300; ++key) seen.insert(order(50, key));
  CHECK(seen.size() == 300);
}

TEST_CASE("permutation: positions and neighbours are uniform") {
  for (std::int64_t n : {2, 3, 5, 8, 17, 31, 64, 100}) {
    auto rank = static_cast<std::size_t>(n);
    std::vector<std::int64_t> positions(rank * rank), pairs(rank * rank), apart;
    for (std::uint64_t epoch = 0; epoch < 100 * rank; ++epoch) {
      auto all = order(n, ikebana::detail::key(7, epoch));
      for (std::size_t i = 0; i < rank; ++i) {
        ++positions[i * rank + static_cast<std::size_t>(all[i])];
        if (i > 0) ++pairs[static_cast<std::size_t>(all[i - 1] * n + all[i])];
      }
    }
    CAPTURE(n);
    CHECK(std::abs(deviations(positions, double((n - 1) * (n - 1)))) < 5);
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (i / rank != i % rank) apart.push_back(pairs[i]);
    if (n > 2) CHECK(std::abs(deviations(apart, double(n * (n - 1) - 1))) < 5);
  }
}

TEST_CASE("permutation: all orders of a few samples are equally frequent") {
  for (std::int64_t n : {3, 4, 5, 6}) {
    std::int64_t orders = 1;
    for (std::int64_t i = 2; i <= n; ++i) orders *= i;
    std::map<std::vector<std::int64_t>, std::int64_t> seen;
    for (std::int64_t epoch = 0; epoch < 100 * orders; ++epoch)
      ++seen[order(n, ikebana::detail::key(3, epoch))];
    std::vector<std::int64_t> counts;
    for (const auto& [one, count] : seen) counts.push_back(count);
    CAPTURE(n);
    CHECK(counts.size() == std::size_t(orders));
    CHECK(std::abs(deviations(counts, double(orders - 1))) < 5);
  }
}

}  // namespace test::permutation
