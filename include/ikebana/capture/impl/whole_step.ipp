#pragma once
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/capture/whole_step.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Capture<WholeStep>>::Mechanism(Capture<WholeStep> v) : values(v) {
  check();
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::check() const {
  if (values.tapes < 1)
    throw BadValue("Capture<WholeStep>: tapes is " + std::to_string(values.tapes) +
                   ". Write how many forms of microbatches are kept, 1 or more.");
}

IKEBANA_INLINE Mechanism<Capture<WholeStep>>::~Mechanism() = default;

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::attach(c10::Device device,
                                                          const UnitTable& table) {
  tapes_.attach(device);
  if (device.is_cpu()) bridge::CountingAllocatorV2::install();
  detail::compute_names(*table.units()[0].module);
}

IKEBANA_INLINE detail::MicrobatchPlace Mechanism<Capture<WholeStep>>::place_of(
    const StepState& step) {
  if (step.microbatches == 1) return detail::MicrobatchPlace::Only;
  return step.microbatch == 1 ? detail::MicrobatchPlace::First : detail::MicrobatchPlace::Further;
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::refuse_by_unit() {
  throw BadValue(
      "Capture<WholeStep>: Observe<Memory> has by_unit, which measures what each unit allocates, "
      "and a replay allocates nothing and runs no unit. Write Capture<EachUnit>, whose units are "
      "measured in each step, or leave out one of the two.");
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::check_modules() {
  const std::string name = model_.changed_module();
  if (name.empty()) return;
  is_recording_ = true;
  refuse("\n  " + detail::changed_module_text(name));
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::check_recording() {
  check_modules();
  if (present_->recorder()->problems().empty()) return;
  present_->note_refusal(present_->recorder()->problems());
  refuse(present_->recorder()->problems());
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::refuse(const std::string& problems) {
  refusal_ = problems;
  throw BadModel("Capture<WholeStep>: this step cannot be recorded:" + refusal_ +
                 "\nOr leave Capture out, or write `.on_refusal = OnRefusal::Eager`: such steps "
                 "then run as without it.");
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::refuse_again() {
  is_recording_ = true;
  refuse(present_->refusal());
}

IKEBANA_INLINE bool Mechanism<Capture<WholeStep>>::can_run_eagerly(const Error& error) {
  if (!std::exchange(has_failed_, false)) return refusal_.clear(), false;
  if (refusal_.empty()) refusal_ = std::string("\n  ") + error.what();
  return values.on_refusal == OnRefusal::Eager;
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::turn_off() {
  is_off_ = true, guard_.forget();
  tapes_.clear();
  TORCH_WARN(
      "ikebana: Capture<WholeStep>: steps run as without it, because they cannot be recorded:",
      refusal_);
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::abort() noexcept {
  if (present_ != nullptr) present_->abort();
  present_ = nullptr, has_failed_ = std::exchange(is_recording_, false);
}

IKEBANA_INLINE std::string Mechanism<Capture<WholeStep>>::describe() const {
  return "tapes=" + std::to_string(values.tapes) +
         (values.on_refusal == OnRefusal::Eager ? ", on_refusal=Eager" : "");
}

IKEBANA_INLINE std::string Mechanism<Capture<WholeStep>>::text() const {
  std::string all;
  for (const auto& tape : tapes_.all())
    if (tape->is_ready()) all += tape->text();
  return all.empty() ? "no step was recorded yet\n" : all;
}

}  // namespace ikebana
