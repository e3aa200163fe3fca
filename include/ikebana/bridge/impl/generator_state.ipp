#pragma once
#include <functional>
#include <ikebana/bridge/device_graph.hpp>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/bridge/version.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <new>
#include <string_view>

namespace ikebana::bridge {

IKEBANA_INLINE std::recursive_mutex& generators_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Copies the state of a generator. The operators that do so are none of a step that is recorded.
inline at::Tensor state_now(const at::Generator& generator) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(operator_key);
  return generator.get_state();
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
  draws_.reset();
  if (cpu_) cpu_->capture(cpu());
  else if (const auto* graph = GraphCapture::present(generator_.device())) draws_ = graph->draws();
  else if (is_philox()) philox_ = {generator_.current_seed(), generator_.get_offset()};
  else state_ = state_now(generator_);
  tell_captured();
}

IKEBANA_INLINE void GeneratorState::restore() const {
  std::lock_guard others(generators_mutex());
  auto generator = generator_;
  std::lock_guard lock(generator.mutex());
  if (cpu_) {
    cpu_->restore(cpu());
  } else if (draws_) {
    const auto* graph = GraphCapture::present(generator_.device());
    if (graph == nullptr || graph->draws() != *draws_)
      throw BadModel(
          "a graph of " + generator_.device().str() +
          " cannot set a random generator back, as a checkpoint does for a unit that draws random "
          "numbers. Leave out Checkpoint, or what draws, such as dropout, in the units that it "
          "recomputes.");
    return;
  } else if (is_philox()) {
    generator.set_current_seed(philox_.sequence);
    generator.set_offset(philox_.index);
  } else {
    const c10::impl::ExcludeDispatchKeyGuard unseen(operator_key);
    generator.set_state(state_);
  }
  if (generator_observer) generator_observer->restored(generator, observed_);
}

IKEBANA_INLINE GeneratorPosition GeneratorState::position() const {
  if (cpu_) return cpu_->position();
  if (draws_) return position_of_draws(*draws_);
  return is_philox() ? philox_ : position_of(state_);
}

IKEBANA_INLINE GeneratorPosition GeneratorState::position_now() const {
  auto generator = generator_;
  std::lock_guard lock(generator.mutex());
  if (cpu_) return Mersenne::position_of(cpu());
  if (const auto* graph = GraphCapture::present(generator.device()))
    return position_of_draws(graph->draws());
  if (is_philox()) return {generator.current_seed(), generator.get_offset()};
  return position_of(state_now(generator));
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

IKEBANA_INLINE GeneratorPosition GeneratorState::position_of_draws(std::uint64_t draws) {
  return {~std::uint64_t{0}, draws};
}

IKEBANA_INLINE void GeneratorState::tell_captured() {
  observed_ = generator_observer ? generator_observer->captured(generator_) : 0;
}

IKEBANA_INLINE GeneratorPosition GeneratorState::position_of(const at::Tensor& state) {
  const std::string_view bytes(static_cast<const char*>(state.const_data_ptr()), state.nbytes());
  return {std::hash<std::string_view>()(bytes), bytes.size()};
}

}  // namespace ikebana::bridge
