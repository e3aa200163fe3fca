#pragma once
// What one may ask of `fit`.
#include <filesystem>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <memory>
#include <optional>
#include <stop_token>

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

/// When to stop: any function that says so, or a std::stop_token.
struct StopWhen : std::function<bool()> {
  using std::function<bool()>::function;
  StopWhen(std::stop_token token)
      : std::function<bool()>([token] { return token.stop_requested(); }) {}
};

/// Which state is the best: that of the epoch whose validation gave the smallest, or the largest,
/// value.
struct KeepBest {
  enum Mode { min, max };
  std::string metric = {};  ///< empty: the loss
  Mode mode = min;
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
  StopWhen stop = {};
  bool progress = true;  ///< drawn on a terminal only

  // Saved states. What a disk refuses is warned of and tried again at the next save; fit throws it
  // at its end where the last one failed.
  std::filesystem::path save_to = {};      ///< a folder of their own; empty: none are saved
  std::int64_t save_every = 0;             ///< steps, beside those at each epoch's end
  std::int64_t keep = 2;                   ///< how many of the newest stay
  std::optional<KeepBest> keep_best = {};  ///< stays as `best.safetensors`
  bool resume = false;                     ///< go on from the newest that is whole
  bool save_async = false;                 ///< training waits for a copy in memory only
  bool save_on_sigterm = false;            ///< SIGTERM: save after the present step, and return
  Files* files = &system_files();          ///< the disk; the tests have others
};

}  // namespace ikebana
