#pragma once
#include <functional>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/form.hpp>
#include <new>
#include <string_view>

namespace ikebana::bridge {

IKEBANA_INLINE std::recursive_mutex& generators_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

IKEBANA_INLINE GeneratorState::GeneratorState(c10::Device device)
    : generator_(at::globalContext().defaultGenerator(device)) {
  if (generator_.device().is_cpu()) {
    std::lock_guard lock(generator_.mutex());
    cpu_ = std::make_unique<Mersenne>(cpu());
    tell_captured();
  } else {
    capture();
  }
}

IKEBANA_INLINE void GeneratorState::capture() {
  std::lock_guard lock(generator_.mutex());
  if (cpu_) cpu_->capture(cpu());
  else if (is_philox()) philox_ = {generator_.current_seed(), generator_.get_offset()};
  else state_ = generator_.get_state();
  tell_captured();
}

IKEBANA_INLINE void GeneratorState::restore() const {
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

IKEBANA_INLINE GeneratorPosition GeneratorState::position() const {
  if (cpu_) return cpu_->position();
  return is_philox() ? philox_ : position_of(state_);
}

IKEBANA_INLINE GeneratorPosition GeneratorState::position_now() const {
  auto generator = generator_;
  std::lock_guard lock(generator.mutex());
  if (cpu_) return Mersenne::position_of(cpu());
  if (is_philox()) return {generator.current_seed(), generator.get_offset()};
  return position_of(generator.get_state());
}

IKEBANA_INLINE void GeneratorState::Mersenne::capture(at::CPUGeneratorImpl& generator) {
  ::new (&engine_) at::mt19937(generator.engine());  // assigning would copy it twice
  float_normal_ = generator.next_float_normal_sample();
  double_normal_ = generator.next_double_normal_sample();
}

IKEBANA_INLINE void GeneratorState::Mersenne::restore(at::CPUGeneratorImpl& generator) const {
  generator.set_engine(engine_);
  generator.set_next_float_normal_sample(float_normal_);
  generator.set_next_double_normal_sample(double_normal_);
}

IKEBANA_INLINE GeneratorPosition GeneratorState::Mersenne::position() const {
  return position(engine_.data(), float_normal_.has_value(), double_normal_.has_value());
}

IKEBANA_INLINE GeneratorPosition
GeneratorState::Mersenne::position_of(at::CPUGeneratorImpl& generator) {
  return position(generator.engine().data(), generator.next_float_normal_sample().has_value(),
                  generator.next_double_normal_sample().has_value());
}

IKEBANA_INLINE GeneratorPosition GeneratorState::Mersenne::position(
    const at::mt19937_data_pod& data, bool float_normal, bool double_normal) {
  const auto place = static_cast<std::uint64_t>(data.left_) << 32 | data.next_;
  return {static_cast<std::uint64_t>(data.state_[0]) << 32 | data.state_[1],
          place << 2 | std::uint64_t(float_normal) << 1 | std::uint64_t(double_normal)};
}

IKEBANA_INLINE void GeneratorState::tell_captured() {
  observed_ = generator_observer ? generator_observer->captured(generator_) : 0;
}

IKEBANA_INLINE GeneratorPosition GeneratorState::position_of(const at::Tensor& state) {
  const std::string_view bytes(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
  return {std::hash<std::string_view>()(bytes), bytes.size()};
}

}  // namespace ikebana::bridge
