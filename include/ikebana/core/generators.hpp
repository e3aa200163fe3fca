#pragma once
// The random generators of the CPU and of a trainer's device: they are saved with its state, and
// several ranks must not draw the same numbers, as they would after torch::manual_seed with one
// seed everywhere.
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/state/archive.hpp>
#include <vector>

namespace ikebana::detail {

/// The generators of the CPU and of the model's device within a step. If all ranks have them in the
/// same state, each rank but the first draws from then on from a state that is derived from it and
/// from the rank. A generator that drew nothing in the step is put back.
class RankGenerators {
 public:
  explicit RankGenerators(c10::Device device) : device_(device) {}

  /// Returns a hash of the generators' states. If it is equal on all ranks, they would draw the
  /// same numbers.
  std::uint64_t position() const;
  void derive(std::int64_t rank);
  /// Is called when the step is committed: puts back the generators that drew nothing.
  void finish() noexcept;

  /// Returns a number of this process, because ranks that are threads of one process share its
  /// generators.
  static std::uint64_t process();

 private:
  struct Derived {
    bridge::GeneratorState former;
    bridge::GeneratorPosition derived;
  };
  static std::uint64_t mixed(c10::Device device, std::uint64_t hash);
  void add(c10::Device device, std::int64_t rank);

  c10::Device device_;
  std::vector<Derived> all_;
};

/// Saves, checks or loads the generators, so that random numbers continue where they were. A state
/// that was saved on another type of device lacks this device's generator, and random numbers
/// differ there anyway: the generator stays as it is, with a warning.
void save_generators(Archive& archive, c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/generators.ipp>
#endif
