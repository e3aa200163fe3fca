#pragma once
// A contestant as a program, told what to do by its input and ending with it. `run <steps>`:
// answers with the seconds they took, the loss of the last one and the allocations on the heap.
// `operators <steps>`: with the names of all operators that they called, forward and backward.
// `count 1`: from now on a profiler is to count. `bytes 1`: what the last step kept, and its peak.
#include <ATen/record_function.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>

#include "../conditions.hpp"
#include "setting.hpp"

/// Heap allocations so far, where a library that counts them is loaded before the program's own.
extern "C" [[gnu::weak]] long heap_allocations();
/// In that library, too: from now on callgrind is to count.
extern "C" [[gnu::weak]] void start_counting();
/// What a profiler is told to count.
extern "C" [[gnu::noinline]] inline double timed_steps(const std::function<double(long)>& steps,
                                                       long count) {
  return steps(count);
}

namespace bench {

/// Of a step, beyond those before it: when forward has ended, and at the most.
struct Bytes {
  std::int64_t kept = 0, peak = 0;
};

/// One update from a batch; its loss is read only where it is asked for.
struct Contestant {
  std::function<void(const Batch&)> step;
  std::function<double()> loss;
  std::function<Bytes()> bytes = {};  // of the last step
};

/// The names of the operators that `body` calls and of the autograd nodes that it runs, in order.
inline std::string operators_of(const std::function<void()>& body) {
  static std::string names;
  names.clear();
  auto note = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    names += std::string(names.empty() ? "" : ",") + f.name();
    return nullptr;
  };
  auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  body();
  at::removeCallback(handle);
  return names;
}

inline int serve(const Setting& setting, const Contestant& contestant) {
  auto batches = read_batches(setting);
  std::size_t next = 0;
  std::function<double(long)> steps = [&](long count) {
    auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < count; ++i) contestant.step(batches[next++ % batches.size()]);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  auto allocations = [] { return heap_allocations ? heap_allocations() : 0; };
  std::string word;
  for (long count; std::cin >> word >> count;) {
    if (word == "count") {
      if (start_counting) start_counting();
      continue;
    }
    if (word == "operators") {
      std::puts(operators_of([&] { steps(count); }).c_str());
      std::fflush(stdout);
      continue;
    }
    if (word == "bytes") {
      Bytes bytes = contestant.bytes();
      std::printf("%lld %lld\n", static_cast<long long>(bytes.kept),
                  static_cast<long long>(bytes.peak));
      std::fflush(stdout);
      continue;
    }
    long before = allocations();
    double seconds = timed_steps(steps, count);
    long allocated = allocations() - before;
    std::printf("%.9f %.9g %ld\n", seconds, contestant.loss(), allocated);
    std::fflush(stdout);
  }
  return 0;
}

inline int print_environment() {
  std::printf("%s, LibTorch %s (%s)\n", compiler(), TORCH_VERSION,
              at::get_cpu_capability().c_str());
  return 0;
}

/// Reports what went wrong where the driver sees it.
template <class Main>
int guarded(Main&& body) {
  at::set_num_threads(1);
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace bench
