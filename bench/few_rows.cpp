// Measures products of a few rows with a matrix by MKL and by oneDNN, the two sides of the rule of
// modules::linear: medians of interleaved rounds, one thread. Writes a Markdown table.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <ikebana/modules/linear.hpp>

#include "conditions.hpp"

namespace {

/// Measures processor time, which other programs disturb less.
template <class F>
double seconds(const F& product, int times) {
  const std::clock_t begin = std::clock();
  for (int i = 0; i < times; ++i) product();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / times;
}

/// Returns MKL's time over oneDNN's.
double ratio(std::int64_t rows, std::int64_t from, std::int64_t to) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({rows, from}), weight = at::randn({to, from});
  const auto mkl = [&] { return at::linear(x, weight); };
  const auto onednn = [&] { return ikebana::detail::linear_by_onednn(x, weight, {}); };
  if (!at::allclose(mkl(), onednn(), 1e-3, 1e-3)) {
    std::puts("the products differ");
    std::exit(1);
  }
  const int times = static_cast<int>(std::max<std::int64_t>(3, 100000000 / (rows * from * to)));
  std::vector<double> ratios;
  for (int round = 0; round < 9; ++round)
    ratios.push_back(seconds(mkl, times) / seconds(onednn, times));
  return bench::median(ratios);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::print_conditions("", 9);
  if (!ikebana::detail::onednn_linear())
    return std::puts("\nThis LibTorch has no such product."), 0;
  const std::int64_t rows[] = {1, 2, 4, 8, 16};
  std::puts("\n| weight | 1 row | 2 rows | 4 rows | 8 rows | 16 rows |");
  std::puts("|---|---:|---:|---:|---:|---:|");
  const std::pair<int, int> shapes[] = {{128, 512},  {256, 1024}, {1024, 1024},
                                        {768, 3072}, {256, 8192}, {576, 49152}};
  for (const auto& [from, to] : shapes) {
    std::printf("| %d x %d |", from, to);
    for (const std::int64_t n : rows) std::printf(" %.2f |", ratio(n, from, to));
    std::puts("");
  }
}
