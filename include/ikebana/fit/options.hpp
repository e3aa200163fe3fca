#pragma once
// Defines the options of `fit`.
#include <filesystem>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/fit/callbacks.hpp>
#include <ikebana/fit/early_stopping.hpp>
#include <ikebana/fit/logger.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse_loader.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/state_parts.hpp>
#include <memory>
#include <optional>
#include <string>
#include <version>

namespace ikebana::detail {

/// A loader that reads the part of one of several ranks of each batch, as DataLoader does.
template <class Loader>
concept DividesAmongRanks = requires(Loader& loader, Archive& archive) {
  loader.options().num_replicas;
  loader.options().rank;
  loader.state(archive);
};

/// Describes a loader, so that ranks can compare theirs before they train. The lines are `rank
/// num_replicas`, then one for each number of its position and of the values on which the position
/// depends. Returns one empty line for a loader that knows no ranks.
template <class Loader>
std::string lines_of_loader(Loader& loader) {
  if constexpr (DividesAmongRanks<Loader>) {
    StateDict values;
    Archive archive(values, Archive::Mode::Save);
    loader.state(archive);
    std::string text = std::to_string(loader.options().rank) + " " +
                       std::to_string(loader.options().num_replicas) + "\n";
    for (const auto& [name, value] : values)
      text += name.substr(name.rfind('.') + 1) + " = " +
              (value.is_floating_point() ? c10::str(number(value))
                                         : std::to_string(value.template item<std::int64_t>())) +
              "\n";
    return text;
  } else {
    return "\n";
  }
}

}  // namespace ikebana::detail

#ifdef __cpp_lib_jthread
#include <stop_token>
#endif

namespace ikebana {

namespace detail {

/// Saves and loads the position of a loader whose passes may differ. Ignores a saved position that
/// the loader does not use. If no position was saved, the loader stays where it is.
template <class Loader>
void archive_position(Loader& loader, Archive& archive) {
  [[maybe_unused]] auto& range = range_of(loader);
  if constexpr (KeepsState<decltype(range)>) {
    bool varies = true;
    if constexpr (requires { range.varies(); }) varies = range.varies();
    if (varies && (archive.saving() || !archive.names().empty())) range.state(archive);
    if (varies) return;
  }
  archive.ignore_section();
}

/// A view or a pointer, which refers to a loader or owns it. It is kept itself, instead of a
/// reference to it.
template <class Given>
concept keeps_loader = requires(Given& given) { std::begin(*given); } || std::ranges::view<Given>;
/// Returns the reason why a loader cannot give batches of type `Batch`.
template <class Batch, class Loader>
consteval auto source_diagnosis() {
  using Bare = std::remove_cvref_t<Loader>;
  if constexpr (!has_batches<Loader>) return refuse::is<refuse::NoBatches<Bare>>{};
  else if constexpr (!std::is_convertible_v<batch_of_t<Loader>, const Batch&>)
    return refuse::is<refuse::OtherBatches<Bare, Batch>>{};
  else return refuse::is<refuse::Nothing>{};
}
template <class Batch, class Loader>
using source_diagnosis_t = typename decltype(source_diagnosis<Batch, Loader>())::type;

}  // namespace detail

/// Batches of any loader, with the loader's type erased: the type of `FitOptions::validate`. Refers
/// to the loader, which must outlive it; a temporary is refused. A temporary pointer or view, such
/// as a std::unique_ptr that `make_data_loader` returns, is kept.
template <class Batch>
class BatchSource {
 public:
  BatchSource() = default;
  /// Takes any loader. The compiler refuses one whose batches have another type.
  template <class Loader>
    requires(!std::is_same_v<std::decay_t<Loader>, BatchSource>)
  BatchSource(Loader&& loader) {
    using Bare = std::remove_cvref_t<Loader>;
    using Diagnosis = detail::source_diagnosis_t<Batch, Loader>;
    (void)sizeof(Diagnosis);
    if constexpr (!refuse::passed<Diagnosis>) return;
    else if constexpr (std::is_lvalue_reference_v<Loader>) refer_to(loader);
    else if constexpr (!std::is_const_v<Loader> && detail::keeps_loader<Bare>)
      keep(std::make_shared<Bare>(std::move(loader)));
    else (void)sizeof(refuse::TemporaryLoader<Bare>);
  }

  /// Returns false if there is no loader.
  explicit operator bool() const { return static_cast<bool>(visit_); }
  /// Calls `f` for every batch of one pass.
  void visit(const std::function<void(const Batch&)>& f) const { visit_(f); }
  /// Describes the loader's data, so that ranks can compare theirs.
  std::string lines() const { return lines_(); }
  /// The section of the loader's position in a saved state.
  static constexpr const char* state_name = "validation";
  /// Saves and loads the loader's position, if its passes may differ.
  void state(Archive& archive) const {
    if (position_) position_(archive);
    else archive.ignore_section();
  }

 private:
  template <class Loader>
  void refer_to(Loader& loader) {
    visit_ = [&loader](const auto& f) { detail::visit(loader, f); };
    position_ = [&loader](Archive& archive) { detail::archive_position(loader, archive); };
    lines_ = [&loader] { return detail::lines_of_loader(detail::range_of(loader)); };
  }
  template <class Loader>
  void keep(const std::shared_ptr<Loader>& loader) {
    visit_ = [loader](const auto& f) { detail::visit(*loader, f); };
    position_ = [loader](Archive& archive) { detail::archive_position(*loader, archive); };
    lines_ = [loader] { return detail::lines_of_loader(detail::range_of(*loader)); };
  }

  std::function<void(const std::function<void(const Batch&)>&)> visit_;
  std::function<void(Archive&)> position_;
  std::function<std::string()> lines_;
};

/// Tells `fit` when to stop: any function that then returns true, or a std::stop_token.
struct StopWhen : std::function<bool()> {
  using std::function<bool()>::function;
#ifdef __cpp_lib_jthread  // libc++ has it from LLVM 20 on
  /// Stops when the token is asked to.
  StopWhen(std::stop_token token)
      : std::function<bool()>([token] { return token.stop_requested(); }) {}
#endif
};

/// Chooses the best state, which is the state of the epoch, or with `validate_every` of the
/// validation, with the smallest or the largest value.
struct KeepBest {
  /// Chooses whether the smallest or the largest value is the best.
  enum Mode {
    min,  ///< the lowest value is the best
    max   ///< the highest value is the best
  };
  std::string metric = {};        ///< empty: the loss
  std::optional<Mode> mode = {};  ///< best value of a metric; for the loss: min
};

/// Options of `Trainer::fit`.
template <class Batch>
struct FitOptions {
  /// Passes over the loader; a resumed training makes the remaining ones. By default 1, and with
  /// `max_steps` as many as these take.
  std::optional<std::int64_t> epochs = {};
  /// Steps at most, with those before a resume; the last epoch may end within the loader.
  std::optional<std::int64_t> max_steps = {};
  std::int64_t batches_per_step = 1;  ///< batches per update; each is one microbatch
  BatchSource<Batch> validate = {};   ///< evaluated after every epoch, or by `validate_every`
  /// Steps between validations, which replace the validations of epochs. 0: after each epoch.
  std::int64_t validate_every = 0;
  std::vector<Metric<Batch>> metrics = {};  ///< computed by each validation: `{Accuracy{}}`
  /// Computed from the batches of each epoch and the outputs that its steps had, without another
  /// forward: `{Accuracy{}}`. `Epoch::train_metrics` has their values. A step whose update was
  /// skipped counts, one that was undone does not.
  std::vector<Metric<Batch>> train_metrics = {};
  Callbacks<Report> on_step = {};  ///< is called after each step: `f` or `{f, g}`
  /// Is called after each validation of `validate_every`.
  Callbacks<Validation> on_validation = {};
  Callbacks<Epoch> on_epoch = {};  ///< is called after each epoch and its validation
  /// Are given steps, validations by `validate_every` and epochs, before the functions above:
  /// `{CSVLogger("steps.csv")}`. On several ranks only rank 0 calls them.
  std::vector<Logger> loggers = {};
  std::int64_t log_every = 1;  ///< loggers get every n-th step; other steps are in no row
  /// Is called after every step and every epoch; fit stops when it returns true.
  StopWhen stop = {};
  /// Ends training after a validation that has not improved for some validations.
  std::optional<EarlyStopping> early_stopping = {};
  /// A bar on stderr, or every ten seconds a line if that is no terminal; and a line if a training
  /// is resumed.
  bool progress = true;

  // The options below are for saved states. If a save fails, fit warns and tries again at the next
  // one; it throws the error at its end if the last save failed.
  std::filesystem::path save_to = {};      ///< a folder for the states alone; empty: none are saved
  std::int64_t save_every = 0;             ///< steps between saves; also saved after each epoch
  std::int64_t keep = 2;                   ///< how many of the newest states are kept
  std::optional<KeepBest> keep_best = {};  ///< kept as `best.safetensors`
  bool resume = false;                     ///< continue from the newest intact state, and say so
  bool save_async = false;                 ///< training waits only for a copy in memory
  bool save_on_sigterm = false;            ///< on SIGTERM, save after the current step and return
  /// Objects of your own with `state(Archive&)`, which are saved and resumed with the trainer:
  /// `.parts = {counter, buffer}`. They must outlive the call.
  StateParts parts = {};
  Files* files = &system_files();  ///< replaced by tests
};

namespace detail {

/// The options that do not depend on the type of the batches. Refers to the members of FitOptions
/// that have the same names.
struct FitSettings {
  const std::optional<std::int64_t>& epochs;
  const std::optional<std::int64_t>& max_steps;
  const std::int64_t& batches_per_step;
  const bool validate;  ///< whether there is a loader
  const std::int64_t& validate_every;
  const std::vector<std::string> metrics;
  const std::vector<ErasedMetric> train_metrics;
  const Callbacks<Report>& on_step;
  const Callbacks<Validation>& on_validation;
  const Callbacks<Epoch>& on_epoch;
  const std::vector<Logger>& loggers;
  const std::int64_t& log_every;
  const StopWhen& stop;
  const std::optional<EarlyStopping>& early_stopping;
  const bool& progress;
  const std::filesystem::path& save_to;
  const std::int64_t &save_every, &keep;
  const std::optional<KeepBest>& keep_best;
  const bool &resume, &save_async, &save_on_sigterm;
  const StateParts& parts;
  Files* const& files;

  ~FitSettings();
  /// Returns the number of epochs, which `max_steps` may end earlier.
  std::int64_t max_epochs() const;
  bool validates_by_steps() const { return validate_every > 0; }
};
template <class Batch>
FitSettings settings_of(const FitOptions<Batch>& o) {
  return {o.epochs,
          o.max_steps,
          o.batches_per_step,
          static_cast<bool>(o.validate),
          o.validate_every,
          names_of(each_of(o.metrics)),
          list_of(each_of(o.train_metrics)),
          o.on_step,
          o.on_validation,
          o.on_epoch,
          o.loggers,
          o.log_every,
          o.stop,
          o.early_stopping,
          o.progress,
          o.save_to,
          o.save_every,
          o.keep,
          o.keep_best,
          o.resume,
          o.save_async,
          o.save_on_sigterm,
          o.parts,
          o.files};
}

/// Returns the reason why `fit` cannot take this loader and these options.
template <class Loader, class Options>
consteval auto fit_diagnosis() {
  using Batch = batch_of_t<Loader>;
  if constexpr (!has_batches<Loader>)
    return refuse::is<refuse::NoBatches<std::remove_cvref_t<Loader>>>{};
  else if constexpr (!std::is_convertible_v<const Options&, const FitOptions<Batch>&>)
    return refuse::is<refuse::NotOptions<Options, Batch>>{};
  else return refuse::is<refuse::Nothing>{};
}
template <class Loader, class Options>
using fit_diagnosis_t = typename decltype(fit_diagnosis<Loader, Options>())::type;

}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/options.ipp>
#endif
