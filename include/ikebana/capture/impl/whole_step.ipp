#pragma once
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/capture/whole_step.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Capture<WholeStep>>::~Mechanism() = default;

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::attach(c10::Device device, const UnitTable&) {
  if (!device.is_cpu())
    throw BadValue("Capture<WholeStep>: it records steps of a CPU, and this model is on " +
                   device.str() + ". Leave it out.");
  if (values.tapes < 1)
    throw BadValue("Capture<WholeStep>: tapes is " + std::to_string(values.tapes) +
                   ". Write how many forms of batches are kept, 1 or more.");
  bridge::CountingAllocatorV2::install();
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::before_commit(DeferredCheck& deferred) {
  if (recorder_ == nullptr) return;
  raises_ = true;  // errors of the step itself
  for (const DeferredCheck::Recorded& check : deferred.recorded())
    if (detail::number_on_host(check.flag) != 0) check.raise();
  raises_ = false;
  if (const std::string name = model_.changed_module(); !name.empty())
    recorder_->add_problem("`" + name +
                           "` changes a member of itself in its forward, which a replay would not "
                           "do. Keep it in a buffer that operators change, or outside of the "
                           "model.");
  if (!recorder_->problems().empty()) {
    refusal_ = recorder_->problems();
    throw_if_refused();
  }
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::throw_if_refused() {
  if (refusal_.empty()) return;
  const std::string why = std::exchange(refusal_, {});
  if (values.on_refusal == OnRefusal::Eager) refusal_ = why, retries_ = true;
  throw BadModel("Capture<WholeStep>: this step cannot be recorded:" + why +
                 "\nOr leave out Capture; with `.on_refusal = OnRefusal::Eager` such steps run "
                 "as without it.");
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::refused() {
  is_off_ = true, forget();
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::forget() noexcept {
  tapes_.clear();
  steps_ = 0, is_known_ = false;
}

IKEBANA_INLINE void Mechanism<Capture<WholeStep>>::state(Archive& archive, const Masters&) {
  if (archive.loading()) forget();
}

IKEBANA_INLINE std::string Mechanism<Capture<WholeStep>>::describe() const {
  return "tapes=" + std::to_string(values.tapes) +
         (values.on_refusal == OnRefusal::Eager ? ", runs what it cannot record" : "");
}

IKEBANA_INLINE std::string Mechanism<Capture<WholeStep>>::text() const {
  std::string all;
  for (const auto& tape : tapes_.all())
    if (tape->is_ready()) all += tape->tape().text();
  return all.empty() ? "no step was recorded yet\n" : all;
}

}  // namespace ikebana
