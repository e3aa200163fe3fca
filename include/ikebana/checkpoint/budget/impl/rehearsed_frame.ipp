#pragma once
#include <ikebana/checkpoint/budget/rehearsed_frame.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>

namespace ikebana::detail {

IKEBANA_INLINE WatchOperators::WatchOperators(bridge::MemoryCounter& counter, c10::Device device)
    : counter_(counter), device_(device), level_(counter.now()), since_begin_(device) {
  counter_.reset_peak();
}

IKEBANA_INLINE void WatchOperators::call(bridge::OperatorCall& call) {
  ++operators_;
  if (is_filled_) return call.compute();
  if (call.schema().is_mutable()) return write(call);
  if (!matrix_operators(call)) return call.compute();
  ++products_;
  StorageSet arguments;
  each_tensor(call.arguments(), [&](const at::Tensor& t) { arguments.add(t); });
  const Stopwatch since_call(device_);
  call.compute();
  time_kept_ += since_call.nanoseconds();
  lap();
  each_tensor(call.results(), [&](const at::Tensor& t) {
    if (!arguments.has(t) && outputs_.add(t)) kept_.push_back(t.storage().getWeakStorageImpl());
  });
}

IKEBANA_INLINE void WatchOperators::filled() {
  lap();
  is_filled_ = true;
  time_ = since_begin_.nanoseconds(), laps_to_fill_ = laps_.size();
}

IKEBANA_INLINE void WatchOperators::end_bytes(Recomputed& seen,
                                              const std::vector<at::Tensor>& saved,
                                              std::vector<at::Tensor>& results,
                                              const StorageSet& inputs) {
  lap();
  StorageSet all_saved, all_results, saved_results;
  all_saved.add_all(saved), all_results.add_all(results);
  for (const at::Tensor& t : saved)
    if (inputs.has(t)) seen.saved_inputs.add(t);
    else if (all_results.has(t)) saved_results.add(t);
  seen.keeps_result = saved_results.size() > 0;
  seen.result = all_results.bytes_beyond(inputs);
  for (const Lap& one : laps_) seen.rise_whole = std::max(seen.rise_whole, one.peak);
  seen.products = products_;
  set_selective(seen, all_saved, all_results);
  results.clear();
  seen.keep = std::max<std::int64_t>(0, counter_.now() - level_ - saved_results.bytes());
}

IKEBANA_INLINE void WatchOperators::end_times(Recomputed& seen) const {
  const std::int64_t whole = since_begin_.nanoseconds();
  if (seen.operators > 0 && seen.time_watched <= time_) return;  // the fastest run counts
  seen.time_watched = time_, seen.time_kept = time_kept_, seen.time_rest = whole - time_;
  seen.operators = operators_;
}

IKEBANA_INLINE void WatchOperators::lap() {
  laps_.push_back({counter_.peak() - level_, kept_.size()});
  counter_.reset_peak();
}

IKEBANA_INLINE void WatchOperators::write(bridge::OperatorCall& call) {
  each_tensor(call.arguments(), [&](const at::Tensor& t) {
    if (outputs_.has(t)) written_.add(t);
  });
  call.compute();
}

IKEBANA_INLINE void WatchOperators::set_selective(Recomputed& seen, const StorageSet& saved,
                                                  const StorageSet& results) {
  std::vector<std::int64_t> made_anyway{
      0};  // bytes of what autograd saves, made by the first calls
  for (const auto& weak : kept_) {
    auto* storage = weak._unsafe_get_target();
    const auto bytes = outputs_.bytes_of(storage);
    const bool is_copy = written_.has(storage);
    made_anyway.push_back(made_anyway.back());
    if (results.has(storage) && !is_copy) {  // counted as the input of the unit that takes it
      seen.keeps_result = true;
      continue;
    }
    seen.selective += bytes;
    if (saved.has(storage) && !is_copy) made_anyway.back() += bytes;
    else seen.selective_unsaved += bytes;
  }
  for (std::size_t i = 0; i < laps_to_fill_; ++i)
    seen.rise_selective =
        std::max(seen.rise_selective, laps_[i].peak + seen.selective - made_anyway[laps_[i].kept]);
  seen.rise_selective += written_.bytes();  // copied once more by each recompute
}

IKEBANA_INLINE void RehearsedFrame::replay(CompareDraws&, Run run) {
  run(watch_ ? &*watch_ : nullptr);
}

IKEBANA_INLINE bool RehearsedFrame::goes_on() {
  if (watch_) watch_->filled();
  return watch_.has_value();
}

IKEBANA_INLINE void RehearsedFrame::before_recompute(const std::vector<Tensors>& inputs,
                                                     Rehearse rehearse) {
  is_measured_ = measurement_->is_present(place_);
  if (!is_measured_) return;
  measurement_->begin_recompute(*place_);
  seen_ = {};
  StorageSet known;
  for (const auto& of_unit : inputs) known.add_all(of_unit);
  try {
    seen_.is_complete = watched(rehearse,
                                [&](const Tensors& saved, Tensors& results) {
                                  watch_->end_bytes(seen_, saved, results, known);
                                }) &&
                        timed(rehearse);
  } catch (const OutOfMemory&) {  // within a limit: only the recompute itself may fit
  }
  watch_.reset();
  measurement_->counter().reset_peak();
  level_ = measurement_->counter().now();
  watch_time_.emplace(measurement_->device());
}

IKEBANA_INLINE void RehearsedFrame::after_recompute() {
  if (!is_measured_) return;
  seen_.add_time(watch_time_->nanoseconds());
  seen_.rise = measurement_->counter().peak() - level_;
  measurement_->end_recompute(*place_, seen_);
}

IKEBANA_INLINE bool RehearsedFrame::timed(Rehearse rehearse) {
  for (int again = 0; again < 2; ++again) {
    auto read = [&](const Tensors&, Tensors&) { watch_->end_times(seen_); };
    if (!watched(rehearse, read)) return false;
    watch_.reset();
    Tensors no_results;
    const Stopwatch time(measurement_->device());
    const auto saved = rehearse(no_results);
    if (!saved) return false;
    seen_.add_time(time.nanoseconds());
  }
  return true;
}

IKEBANA_INLINE bool RehearsedFrame::watched(Rehearse rehearse, Read read) {
  watch_.emplace(measurement_->counter(), measurement_->device());
  Tensors results;
  const auto saved = rehearse(results);
  if (!saved) return false;
  read(*saved, results);
  return true;
}

IKEBANA_INLINE std::shared_ptr<Frame> rehearsed_frame(c10::Device device,
                                                      std::shared_ptr<Measurement> measurement,
                                                      std::shared_ptr<const std::size_t> place) {
  if (!at::GradMode::is_enabled()) return nullptr;
  return make_shared_apart<RehearsedFrame>(device, std::move(measurement), std::move(place));
}

}  // namespace ikebana::detail
