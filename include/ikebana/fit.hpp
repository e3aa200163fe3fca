#pragma once
// The loop around the step: epochs, validation, callbacks, a progress bar.
#include <ikebana/evaluate.hpp>
#include <ikebana/progress.hpp>
#include <memory>

namespace ikebana {

/// Batches of any loader with its type erased: what `FitOptions::validate` takes. Refers to the
/// loader, which must live as long.
template <class Batch>
class BatchSource;

namespace detail {

/// A loader or a pointer to one, as LibTorch's make_data_loader gives it.
template <class Loader>
decltype(auto) range_of(Loader& loader) {
  if constexpr (requires { std::begin(*loader); }) return (*loader);
  else return (loader);
}
template <class Loader>
struct batch_of {
  using type = std::decay_t<decltype(*std::begin(range_of(std::declval<Loader&>())))>;
};
template <class Batch>
struct batch_of<BatchSource<Batch>> {
  using type = Batch;
};
template <class Loader>
using batch_of_t = typename batch_of<std::remove_cvref_t<Loader>>::type;

/// Calls `f` for every batch of a loader.
template <class Loader, class F>
void visit(Loader& loader, F&& f) {
  if constexpr (requires { loader.visit(f); }) loader.visit(f);
  else
    for (auto&& batch : range_of(loader)) f(batch);
}

}  // namespace detail

template <class Batch>
class BatchSource {
 public:
  BatchSource() = default;
  template <class Loader>
    requires(!std::is_same_v<std::decay_t<Loader>, BatchSource>)
  BatchSource(Loader& loader) : visit_([&loader](const auto& f) { detail::visit(loader, f); }) {}

  explicit operator bool() const { return static_cast<bool>(visit_); }
  /// One pass: calls `f` for every batch.
  void visit(const std::function<void(const Batch&)>& f) const { visit_(f); }

 private:
  std::function<void(const std::function<void(const Batch&)>&)> visit_;
};

/// How `Trainer::fit` goes.
template <class Batch>
struct FitOptions {
  std::int64_t epochs = 1;
  std::int64_t batches_per_step = 1;  ///< loader batches that make one update, each one microbatch
  BatchSource<Batch> validate = {};   ///< evaluated after every epoch
  std::vector<Metric<Batch>> metrics = {};
  std::function<void(const Report&)> on_step = {};
  std::function<void(const Epoch&)> on_epoch = {};
  /// Asked after every step and epoch; may read what another thread writes.
  std::function<bool()> stop = {};
  bool progress = true;  ///< drawn on a terminal only
};

namespace detail {

/// One epoch of steps; true where it was stopped.
template <class Trainer, class Range, class Batch>
bool fit_epoch(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, Epoch& epoch,
               Progress& progress) {
  double sum = 0;
  bool stopped = false;
  std::vector<Batch> gathered;
  auto update = [&](const auto& batch) {
    Report report = trainer.step(batch);
    sum += report.loss();
    ++epoch.steps;
    epoch.loss = sum / static_cast<double>(epoch.steps);
    progress.draw(epoch.epoch, report);
    if (options.on_step) options.on_step(report);
    stopped = options.stop && options.stop();
  };
  for (auto&& batch : loader) {
    if (options.batches_per_step == 1) {
      update(batch);
    } else {
      gathered.push_back(batch);
      if (static_cast<std::int64_t>(gathered.size()) < options.batches_per_step) continue;
      update(std::exchange(gathered, {}));
    }
    if (stopped) return true;
  }
  if (!gathered.empty()) update(gathered);  // the last, shorter group: its divisor is its own count
  return stopped;
}

}  // namespace detail

/// Trains for some epochs, and tells `ended` what each came to. Reads each step's loss, so it waits
/// for the device once a step; write the loop around `step` where that matters.
template <class Trainer, class Range, class Batch, class Ended>
History fit(Trainer& trainer, Range& loader, const FitOptions<Batch>& options, Ended&& ended) {
  if (options.epochs < 0 || options.batches_per_step < 1)
    throw BadValue("fit: epochs is " + std::to_string(options.epochs) + " and batches_per_step " +
                   std::to_string(options.batches_per_step) + "; give 0 or more, and 1 or more.");
  History history;
  Progress progress(options.progress, options.epochs, loader, options.batches_per_step);
  for (std::int64_t e = 0; e < options.epochs; ++e) {
    Epoch& epoch = history.emplace_back();
    epoch.epoch = e;
    auto begin = std::chrono::steady_clock::now();
    bool stopped = detail::fit_epoch(trainer, loader, options, epoch, progress);
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (epoch.steps == 0)
      throw BadBatch("fit: the loader gave no batch. Give it data, and mind drop_last.");
    progress.aside([&] {
      if (options.validate) epoch.validation = trainer.evaluate(options.validate, options.metrics);
      ended(epoch);
      if (options.on_epoch) options.on_epoch(epoch);
    });
    if (stopped || (options.stop && options.stop())) break;
  }
  return history;
}

}  // namespace ikebana
