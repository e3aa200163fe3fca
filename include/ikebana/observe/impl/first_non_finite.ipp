#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/first_non_finite.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<FirstNonFinite>>::attach(c10::Device,
                                                               const UnitTable& table) {
  table_ = &table;
}

IKEBANA_INLINE std::string Mechanism<Observe<FirstNonFinite>>::found_in_kept() {
  for (const detail::KeptStep& kept : kept_.steps()) {
    if (kept.is_written())
      return " The batch of step " + std::to_string(kept.step) +
             " was written to after that step, so nothing was made again. Leave a batch as it is "
             "until two more steps were made.";
    Watched watched(*this, kept.tensors);
    const std::string of_step = " This is of step " + std::to_string(kept.step) + ".";
    if (!watched.parameter().empty()) return {};  // the error names it
    if (watched.given().empty()) {
      const bridge::OperatorScope<> scope(watched.watch());
      kept.repeat();
    }
    if (watched.given().empty() && !watched.watch().has_made()) continue;
    const std::string found =
        watched.given().empty() ? watched.watch().finding().substr(1) : watched.given();
    kept_.forget_until(kept.step);  // destroys `kept`
    return of_step + found;
  }
  return " All values were finite when the last steps were made again with the present parameters.";
}

IKEBANA_INLINE Mechanism<Observe<FirstNonFinite>>::Watched::Watched(Mechanism& mechanism,
                                                                    std::vector<at::Tensor> batch)
    : mechanism_(mechanism), watch_(*mechanism.table_, place_) {
  if (!batch.empty() && batch[0].defined() && batch[0].dim() > 0) place_.rows = batch[0].size(0);
  look_at_given(batch);
  mechanism_.watched_ = this;
}

IKEBANA_INLINE void Mechanism<Observe<FirstNonFinite>>::Watched::look_at_given(
    const std::vector<at::Tensor>& batch) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (detail::badness(batch[i]) != detail::Badness::Finite)
      given_ += " Tensor " + std::to_string(i) + " of the batch " + watch_.values_text(batch[i]) +
                ": mend the data.";
  const Masters& masters = *mechanism_.masters_;
  for (std::size_t i = 0; i < masters.values.size() && parameter_.empty(); ++i)
    if (detail::badness(masters.values[i]) != detail::Badness::Finite)
      parameter_ = " The parameter `" + masters.names[i] + "` was not finite before the step.";
  is_explained_ = !given_.empty() || !parameter_.empty();
}

IKEBANA_INLINE void Mechanism<Observe<FirstNonFinite>>::Watched::begin(Phase phase,
                                                                       std::size_t microbatch,
                                                                       std::size_t microbatches) {
  if (phase == Phase::Forward) place_.nodes.begin_forward();
  place_.phase = phase;
  place_.microbatch = microbatch, place_.microbatches = microbatches;
}

}  // namespace ikebana
