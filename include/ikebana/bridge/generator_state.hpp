#pragma once
// The state of a default random number generator, and where in its sequence the generator is.

#include <functional>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>

namespace ikebana::bridge {

/// Where a generator is in its sequence: equal positions are followed by equal numbers.
struct GeneratorPosition {
  std::uint64_t sequence = 0, index = 0;
  friend bool operator==(const GeneratorPosition&, const GeneratorPosition&) = default;
};

/// Held where a default generator is set back, and where an operator's draw is compared with
/// another: between the positions before and after it no thread may set the generator.
inline std::recursive_mutex& generators_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Hears, on one thread, of generators that are set back, which no operator does: for what records
/// operators and repeats them. Called with the generator's mutex held.
struct GeneratorObserver {
  virtual ~GeneratorObserver() = default;
  /// The state of now was captured. Returns a number by which `restored` names it, not 0.
  virtual std::uint64_t captured(const at::Generator& generator) = 0;
  /// The generator was set to a captured state; 0: one that was captured unheard.
  virtual void restored(const at::Generator& generator, std::uint64_t state) = 0;
};
/// The observer of this thread, or null.
inline constinit thread_local GeneratorObserver* generator_observer = nullptr;

/// A device's default random number generator and its state at one moment. Making one copies 2.5 kB
/// for the CPU, 16 bytes for CUDA; capturing again allocates nothing there. Other devices' states
/// are tensors of the host. No device is waited for.
class GeneratorState {
 public:
  explicit GeneratorState(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    if (generator_.device().is_cpu()) {
      std::lock_guard lock(generator_.mutex());
      cpu_ = std::make_unique<Mersenne>(cpu());
      tell_captured();
    } else {
      capture();
    }
  }

  /// Takes the state of now.
  void capture() {
    std::lock_guard lock(generator_.mutex());
    if (cpu_) cpu_->capture(cpu());
    else if (is_philox()) philox_ = {generator_.current_seed(), generator_.get_offset()};
    else state_ = generator_.get_state();
    tell_captured();
  }
  void restore() const {
    std::lock_guard others(generators_mutex());
    auto generator = generator_;
    std::lock_guard lock(generator.mutex());
    if (cpu_) {
      cpu_->restore(cpu());
    } else if (is_philox()) {
      generator.set_current_seed(philox_.sequence);
      generator.set_offset(philox_.index);
    } else {
      generator.set_state(state_);
    }
    if (generator_observer) generator_observer->restored(generator, observed_);
  }
  /// The position at the time of the capture.
  GeneratorPosition position() const {
    if (cpu_) return cpu_->position();
    return is_philox() ? philox_ : position_of(state_);
  }
  /// The position now. Costs some 60 ns for the CPU.
  GeneratorPosition position_now() const {
    auto generator = generator_;
    std::lock_guard lock(generator.mutex());
    if (cpu_) return Mersenne::position_of(cpu());
    if (is_philox()) return {generator.current_seed(), generator.get_offset()};
    return position_of(generator.get_state());
  }

 private:
  /// The CPU's: an engine with a block of 624 numbers, and at most one normal number of each dtype
  /// that was computed together with another.
  class Mersenne {
   public:
    explicit Mersenne(at::CPUGeneratorImpl& generator)
        : engine_(generator.engine()),
          float_normal_(generator.next_float_normal_sample()),
          double_normal_(generator.next_double_normal_sample()) {}
    void capture(at::CPUGeneratorImpl& generator) {
      ::new (&engine_) at::mt19937(generator.engine());  // assigning would copy it twice
      float_normal_ = generator.next_float_normal_sample();
      double_normal_ = generator.next_double_normal_sample();
    }
    void restore(at::CPUGeneratorImpl& generator) const {
      generator.set_engine(engine_);
      generator.set_next_float_normal_sample(float_normal_);
      generator.set_next_double_normal_sample(double_normal_);
    }
    GeneratorPosition position() const {
      return position(engine_.data(), float_normal_.has_value(), double_normal_.has_value());
    }
    static GeneratorPosition position_of(at::CPUGeneratorImpl& generator) {
      return position(generator.engine().data(), generator.next_float_normal_sample().has_value(),
                      generator.next_double_normal_sample().has_value());
    }

   private:
    /// The block by its first 64 bits, and the place in it.
    static GeneratorPosition position(const at::mt19937_data_pod& data, bool float_normal,
                                      bool double_normal) {
      const auto place = static_cast<std::uint64_t>(data.left_) << 32 | data.next_;
      return {static_cast<std::uint64_t>(data.state_[0]) << 32 | data.state_[1],
              place << 2 | std::uint64_t(float_normal) << 1 | std::uint64_t(double_normal)};
    }

    at::mt19937 engine_;
    std::optional<float> float_normal_;
    std::optional<double> double_normal_;
  };

  void tell_captured() {
    observed_ = generator_observer ? generator_observer->captured(generator_) : 0;
  }
  at::CPUGeneratorImpl& cpu() const { return *generator_.get<at::CPUGeneratorImpl>(); }
  /// CUDA's: a seed and an offset.
  bool is_philox() const { return generator_.device().is_cuda(); }
  static GeneratorPosition position_of(const at::Tensor& state) {
    const std::string_view bytes(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
    return {std::hash<std::string_view>()(bytes), bytes.size()};
  }

  at::Generator generator_;
  std::unique_ptr<Mersenne> cpu_;
  GeneratorPosition philox_;    // seed and offset
  at::Tensor state_;            // of other devices
  std::uint64_t observed_ = 0;  // the observer's number of this state
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
