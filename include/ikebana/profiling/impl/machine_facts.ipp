#pragma once
#include <algorithm>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/shortest_call.hpp>
#include <ikebana/posix/process_use.hpp>
#include <ikebana/posix/processor.hpp>
#include <ikebana/profiling/machine_facts.hpp>

namespace ikebana::detail {

/// Returns the time that one denormal element adds to an operator of one thread.
inline double denormal_seconds() {
  constexpr std::int64_t n = 1 << 14;
  const auto options = at::TensorOptions(at::kCPU).dtype(at::kFloat);
  const at::Tensor normal = at::full({n}, 1, options), denormal = at::full({n}, 1e-39, options);
  at::Tensor result = at::empty({n}, options);
  auto time = [&](const at::Tensor& t) {
    return shortest_call(at::kCPU, 10, [&] { at::mul_out(result, t, normal); });
  };
  return std::max(0.0, time(denormal) - time(normal)) / n;
}

/// Returns the mean time of operators that make a tensor of one number: the cost of calling them.
inline double launch_seconds(c10::Device device) {
  constexpr int calls = 100;
  const at::Tensor one = at::zeros({1}, device);
  return shortest_call(device, 3,
                       [&] {
                         for (int i = 0; i < calls; ++i) one.add(one), one.mul(2), one.sum();
                       }) /
         (3 * calls);
}

inline double product_seconds(const ProductShape& p, std::int64_t k, std::int64_t n,
                              c10::Device device) {
  const auto options = at::TensorOptions(device).dtype(p.dtype);
  const at::Tensor a = at::ones({p.batch, p.m, k}, options), b = at::ones({p.batch, k, n}, options);
  at::Tensor result = at::bmm(a, b);
  return shortest_call(device, 5, [&] { at::bmm_out(result, a, b); });
}

/// Finds the product without aligned sizes that computes the most, and times it with larger ones.
inline std::optional<TrainingFacts::Unaligned> unaligned_product(
    const std::vector<ProductShape>& products, c10::Device device) {
  const ProductShape* most = nullptr;
  for (const ProductShape& p : products)
    if ((p.k % 8 != 0 || p.n % 8 != 0) && p.k > 16 && p.n > 16 && at::isFloatingType(p.dtype))
      if (most == nullptr || p.flops() > most->flops()) most = &p;
  if (most == nullptr) return {};
  TrainingFacts::Unaligned found{.shape = *most};
  found.padded_k = (most->k + 7) / 8 * 8, found.padded_n = (most->n + 7) / 8 * 8;
  found.seconds = product_seconds(*most, most->k, most->n, device);
  found.padded_seconds = product_seconds(*most, found.padded_k, found.padded_n, device);
  return found;
}

/// Returns how much faster products are with as many threads as cores.
inline double all_cores_speedup() {
  const int threads = at::get_num_threads();
  const auto cores = static_cast<int>(usable_cores());
  if (threads == cores) return 1;
  struct Restore {
    int threads;
    ~Restore() { at::set_num_threads(threads); }
  } restore{threads};
  const double present = matmul_bound(at::kFloat, at::kCPU);
  at::set_num_threads(cores);
  return matmul_bound(at::kFloat, at::kCPU) / present;
}

IKEBANA_INLINE void measure_machine(TrainingFacts& facts, c10::Device device) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  facts.launch_seconds = launch_seconds(device);
  facts.unaligned = unaligned_product(facts.traits.products, device);
  if (!device.is_cpu()) return;
  facts.denormal_seconds = denormal_seconds();
  facts.has_bfloat16 = has_half_instructions(HalfKind::BF16);
  if (facts.has_bfloat16)
    facts.bfloat16_speedup = matmul_bound(at::kBFloat16, device) / matmul_bound(at::kFloat, device);
  // Ranks share the cores, and would measure each other.
  if (facts.ranks == 1) facts.all_cores_speedup = all_cores_speedup();
}

}  // namespace ikebana::detail
