#pragma once
// Random numbers of several ranks: a model must not draw the same ones on all of them, as it would
// after torch::manual_seed with one seed everywhere.
#include <chrono>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/posix/process.hpp>
#include <vector>

namespace ikebana::detail {

/// The generators of the CPU and of the model's device within a step. Where those of all ranks are
/// in the same state, each rank but the first draws from a state derived from it and from its rank,
/// from then on. What drew nothing in the step is put back.
class RankGenerators {
 public:
  explicit RankGenerators(c10::Device device) : device_(device) {}

  /// A number of where the generators are. The same on all ranks: the numbers would be the same.
  std::uint64_t position() const {
    std::uint64_t hash = mixed(at::kCPU, 0);
    return at::isAccelerator(device_.type()) ? mixed(device_, hash) : hash;
  }
  void derive(std::int64_t rank) {
    if (rank == 0) return;
    add(at::kCPU, rank);
    if (at::isAccelerator(device_.type())) add(device_, rank);
  }
  /// The step was made.
  void finish() noexcept {
    for (const Derived& one : all_) {
      try {
        if (one.former.position_now() == one.derived) one.former.restore();
      } catch (const std::exception&) {  // of a device that cannot be used any more
      }
    }
  }

  /// A number of this process: ranks that are threads of one share its generators.
  static std::uint64_t process() {
    static const std::uint64_t number =
        key(process_id(), std::chrono::steady_clock::now().time_since_epoch().count());
    return number;
  }

 private:
  struct Derived {
    bridge::GeneratorState former;
    bridge::GeneratorPosition derived;
  };
  static std::uint64_t mixed(c10::Device device, std::uint64_t hash) {
    const auto at = bridge::GeneratorState(device).position();
    return key(hash, at.sequence, at.index);
  }
  void add(c10::Device device, std::int64_t rank) {
    Derived& one = all_.emplace_back(Derived{bridge::GeneratorState(device), {}});
    const auto at = one.former.position();
    auto generator = at::globalContext().defaultGenerator(device);
    {
      std::lock_guard others(bridge::generators_mutex());
      std::lock_guard lock(generator.mutex());
      generator.set_current_seed(key(at.sequence, at.index, rank));
    }
    one.derived = one.former.position_now();
  }

  c10::Device device_;
  std::vector<Derived> all_;
};

}  // namespace ikebana::detail
