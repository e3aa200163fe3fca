// Loops over memory run on LibTorch's threads in a program that is compiled without OpenMP.
#include "test.hpp"

#include <array>
#include <atomic>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/precision/stochastic_rounding.hpp>
#include <ikebana/state/async_save.hpp>
#include <mutex>
#include <set>
#include <thread>

namespace test::parallel {

#ifdef _OPENMP
#error "these tests are about programs that are compiled without OpenMP"
#endif

using ikebana::detail::in_parallel;

// The thread sanitizer sees no order between the threads of libgomp, which is not built with it.
#if defined(__SANITIZE_THREAD__)
constexpr std::array thread_counts = {1};
#else
constexpr std::array thread_counts = {1, 2, 3};
#endif

/// Sets LibTorch's number of threads, and restores it.
struct Threads {
  int before = at::get_num_threads();
  explicit Threads(int n) { at::set_num_threads(n); }
  ~Threads() { at::set_num_threads(before); }
};

/// Counts the calls of one loop.
struct Visits {
  std::vector<int> count;  // the number of calls for each index
  std::set<std::thread::id> threads;
  bool whole_grains = true;  // every part is within [0, n), not empty, and begins at a grain
};

template <class T>
Visits visit(std::int64_t n, std::int64_t grain) {
  std::vector<T> memory(static_cast<std::size_t>(n));
  Visits visits{std::vector<int>(memory.size()), {}};
  std::mutex mutex;
  in_parallel(memory.data(), n, grain, [&](std::int64_t begin, std::int64_t end) noexcept {
    const std::lock_guard lock(mutex);
    visits.threads.insert(std::this_thread::get_id());
    if (begin % grain != 0 || begin < 0 || begin >= end || end > n) visits.whole_grains = false;
    else
      for (std::int64_t i = begin; i < end; ++i) ++visits.count[static_cast<std::size_t>(i)];
  });
  return visits;
}

TEST_CASE_TEMPLATE("parallel: every index once, on as many threads as LibTorch may use", T,
                   std::uint8_t, at::BFloat16, double) {
  for (int threads : thread_counts) {
    const Threads set(threads);
    for (std::int64_t n : {0, 1, 2, 3, 63, 64, 65, 1000, 4097, 100000})
      for (std::int64_t grain : {1, 2, 3, 64, 1000, 200000}) {
        CAPTURE(n);
        CAPTURE(grain);
        const Visits visits = visit<T>(n, grain);
        CHECK(visits.whole_grains);
        for (int count : visits.count)
          if (count != 1) FAIL_CHECK("an index was visited " << count << " times");
        const auto parts = static_cast<std::size_t>((n + grain - 1) / grain);
        CHECK(visits.threads.size() <= std::min(parts, static_cast<std::size_t>(threads)));
#if AT_PARALLEL_OPENMP
        if (threads == 2 && parts > 1) CHECK(visits.threads.size() == 2);
#endif
      }
  }
}

TEST_CASE("parallel: a loop within a parallel loop runs on its thread alone") {
  const Threads set(thread_counts.back());
  std::vector<char> memory(1000);
  std::atomic<int> inner = 0, elsewhere = 0;
  in_parallel(memory.data(), 1000, 10, [&](std::int64_t, std::int64_t) noexcept {
    const auto outer_thread = std::this_thread::get_id();
    in_parallel(memory.data(), 1000, 10, [&](std::int64_t begin, std::int64_t end) noexcept {
      ++inner;
      if (std::this_thread::get_id() != outer_thread || begin != 0 || end != 1000) ++elsewhere;
    });
  });
  CHECK(inner > 0);
  CHECK(elsewhere == 0);
}

TEST_CASE("parallel: stochastic rounding and copies give the same bits on any number of threads") {
  torch::manual_seed(1);
  const at::Tensor exact = at::randn({300001});
  auto rounded = [&] {
    at::Tensor to = at::empty(exact.sizes(), at::kBFloat16);
    const auto key = ikebana::detail::RoundingKey::of(7, 3, 5);
    ikebana::detail::round_on_cpu(to, exact, key);
    return to;
  };
  const at::Tensor large = at::randn({3 << 20}).narrow(0, 1, (3 << 20) - 1);
  auto copied = [&] {
    at::Tensor to = at::empty_like(large);
    ikebana::detail::copy_bytes(to, large);
    return to;
  };
  const Threads one(1);
  const at::Tensor expected = rounded();
  CHECK(test::same_bits(copied(), large));
  for (int threads : thread_counts) {
    const Threads several(threads);
    CHECK(test::same_bits(rounded(), expected));
    CHECK(test::same_bits(copied(), large));
  }
}

}  // namespace test::parallel
