#pragma once
// Defines the state of a default random number generator, and its position in its sequence.

#include <ikebana/detail/torch.hpp>
#include <memory>
#include <mutex>
#include <optional>

namespace ikebana::bridge {

/// A generator's position in its sequence: equal positions are followed by equal numbers.
struct GeneratorPosition {
  std::uint64_t sequence = 0, index = 0;
  friend bool operator==(const GeneratorPosition&, const GeneratorPosition&) = default;
};

/// Returns the mutex that is held while a default generator is set back, and while an operator's
/// draw is compared with another. No thread may set the generator between the positions before and
/// after the draw.
std::recursive_mutex& generators_mutex();

/// Hears, on one thread, of generators that are set back. No operator does that, so code that
/// records and repeats operators needs it. Called with the generator's mutex held.
struct GeneratorObserver {
  virtual ~GeneratorObserver() = default;
  /// The present state was captured. Returns a number other than 0, by which `restored` names it.
  virtual std::uint64_t captured(const at::Generator& generator) = 0;
  /// The generator was set to a captured state, or to 0 if this observer was not informed of the
  /// capture.
  virtual void restored(const at::Generator& generator, std::uint64_t state) = 0;
};
/// The observer of this thread, or null.
inline constinit thread_local GeneratorObserver* generator_observer = nullptr;

/// A device's default random number generator and its state at one moment. Making one copies 2.5 kB
/// for the CPU, 16 bytes for CUDA; capturing again allocates nothing there. Other devices' states
/// are tensors of the host. Does not wait for a device.
///
/// While a graph of the device is captured, the state is not known: it is the number of operators
/// of the capture that drew so far.
class GeneratorState {
 public:
  explicit GeneratorState(c10::Device device);

  /// Captures the present state.
  void capture();
  /// Sets the generator back. Throws BadModel if it was captured with a graph, and numbers were
  /// drawn since.
  void restore() const;
  /// Returns the position at the time of the capture.
  GeneratorPosition position() const;
  /// Returns the position now. Costs some 60 ns for the CPU.
  GeneratorPosition position_now() const;

 private:
  /// The CPU's state: an engine with a block of 624 numbers, and for each dtype at most one normal
  /// number that was computed together with another.
  class Mersenne {
   public:
    explicit Mersenne(at::CPUGeneratorImpl& generator)
        : engine_(generator.engine()),
          float_normal_(generator.next_float_normal_sample()),
          double_normal_(generator.next_double_normal_sample()) {}
    void capture(at::CPUGeneratorImpl& generator);
    void restore(at::CPUGeneratorImpl& generator) const;
    GeneratorPosition position() const;
    static GeneratorPosition position_of(at::CPUGeneratorImpl& generator);

   private:
    /// Identifies the block by its first 64 bits, and adds the place in it.
    static GeneratorPosition position(const at::mt19937_data_pod& data, bool float_normal,
                                      bool double_normal);

    at::mt19937 engine_;
    std::optional<float> float_normal_;
    std::optional<double> double_normal_;
  };

  void tell_captured();
  static GeneratorPosition position_of_draws(std::uint64_t draws);
  at::CPUGeneratorImpl& cpu() const { return *generator_.get<at::CPUGeneratorImpl>(); }
  /// Returns true for CUDA's generator, whose state is a seed and an offset.
  bool is_philox() const { return generator_.device().is_cuda(); }
  static GeneratorPosition position_of(const at::Tensor& state);

  at::Generator generator_;
  std::unique_ptr<Mersenne> cpu_;
  GeneratorPosition philox_;            // seed and offset
  at::Tensor state_;                    // the state of generators of other devices
  std::uint64_t observed_ = 0;          // the observer's number of this state
  std::optional<std::uint64_t> draws_;  // the number of draws, if a graph was being captured
};

/// RAII: what is drawn from a device's generator meanwhile is drawn again afterwards.
class RestoreGenerator {
 public:
  explicit RestoreGenerator(c10::Device device) : state_(device) {}
  ~RestoreGenerator() { state_.restore(); }
  RestoreGenerator(const RestoreGenerator&) = delete;
  RestoreGenerator& operator=(const RestoreGenerator&) = delete;

 private:
  const GeneratorState state_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/generator_state.ipp>
#endif
