#pragma once
#include <algorithm>
#include <cstring>
#include <ikebana/capture/step_tapes.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StepTape::end(Recorder& recorder, Report& report,
                                  std::vector<DeferredCheck::Recorded> checks) {
  results_ = {};
  results_.must_be_finite = report.must_be_finite;
  for (LossValue::Part& part : report.value.parts) {
    Results::Part& now = results_.parts.emplace_back();
    now.name = part.name, now.scale = part.scale, now.sum = recorder.kept(part.sum);
    if (part.count.on_device()) now.count = recorder.kept(part.count.on_its_device());
    else now.number = part.count.value();
    part.count = Count(part.count.value());
  }
  if (report.norm.defined()) results_.norm = recorder.kept(report.norm);
  if (report.found_inf.defined()) results_.found_inf = recorder.kept(report.found_inf);
  if (report.outputs.defined()) results_.outputs = recorder.kept(report.outputs);
  checks_.clear();
  for (DeferredCheck::Recorded& one : checks)
    checks_.push_back({recorder.kept(one.flag), std::move(one.raise)});
  found_inf_.reset();
  if (!first_) first_ = std::move(recorder.recording());
  else tape_ = std::make_unique<Tape>(std::move(recorder.recording())), first_.reset();
}

IKEBANA_INLINE void StepTape::bind(std::size_t i, const at::Tensor& t) {
  const RecordedTensor& recorded = batch_[i];
  if (!recorded.defined()) return;
  auto* data = static_cast<char*>(const_cast<void*>(t.const_data_ptr()));
  tape_->bind(recorded.memory,
              data - recorded.offset * static_cast<std::int64_t>(c10::elementSize(recorded.dtype)));
}

IKEBANA_INLINE at::Tensor StepTape::view(const RecordedTensor& t, at::Tensor& kept) {
  if (!kept.defined() && t.defined()) kept = tape_->tensor(t);
  return kept;
}

IKEBANA_INLINE void StepTape::check() {
  for (Check& one : checks_)
    if (number_on_host(view(one.flag, one.now)) != 0) one.raise();
}

IKEBANA_INLINE bool StepTape::is_rejected() {
  return results_.found_inf.defined() && number_on_host(view(results_.found_inf, found_inf_)) != 0;
}

IKEBANA_INLINE at::Tensor StepTape::own(const RecordedTensor& t) {
  if (!t.defined()) return {};
  const at::Tensor there = tape_->tensor(t);
  if (there.dim() != 0) return there.clone();
  at::Tensor own = at::detail::scalar_tensor_static(0, t.dtype, at::kCPU);
  std::memcpy(own.mutable_data_ptr(), there.const_data_ptr(), c10::elementSize(t.dtype));
  return own;
}

IKEBANA_INLINE void StepTape::take(LossValue& loss, StepGradients& gradients, Loss& outputs) {
  loss.parts.clear();
  for (const Results::Part& part : results_.parts) {
    const at::Tensor count = own(part.count);
    loss.parts.push_back({{part.name, own(part.sum),
                           count.defined() ? Count(number_on_host(count)) : Count(*part.number),
                           part.scale}, {}});
  }
  gradients.norm = own(results_.norm);
  gradients.found_inf = own(results_.found_inf);
  outputs.outputs = own(results_.outputs);
}

IKEBANA_INLINE StepTape* StepTapes::find(const BatchForm& form) {
  for (const auto& tape : tapes_)
    if (tape->form() == form) return tape->last_use = ++uses_, tape.get();
  return nullptr;
}

IKEBANA_INLINE StepTape& StepTapes::make(const BatchForm& form, std::int64_t most) {
  if (StepTape* known = find(form)) return *known;
  if (static_cast<std::int64_t>(tapes_.size()) >= std::max<std::int64_t>(most, 1))
    tapes_.erase(std::min_element(tapes_.begin(), tapes_.end(), [](const auto& a, const auto& b) {
      return a->last_use < b->last_use;
    }));
  tapes_.push_back(std::make_unique<StepTape>(form));
  tapes_.back()->last_use = ++uses_;
  return *tapes_.back();
}

IKEBANA_INLINE void StepTapes::open(StepTape& tape) {
  if (arena_.bytes() < tape.tape().arena_bytes()) {
    std::size_t bytes = 0;
    for (const auto& one : tapes_)
      if (one->is_ready()) bytes = std::max(bytes, one->tape().arena_bytes());
    arena_.reserve(bytes);
  }
  tape.tape().use(arena_);
}

}  // namespace ikebana::detail
