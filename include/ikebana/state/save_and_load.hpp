#pragma once
// Defines the methods of Trainer and AnyTrainer that save and load.
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/saved_trainer.hpp>
#include <ikebana/state/weights.hpp>

namespace ikebana {

namespace detail {

// The following functions are the bodies of the methods below. `saver` is null before the first
// asynchronous save.
void save_state(SavedTrainer& trainer, AsyncSaver* saver, const Files::Path& path,
                const StateParts& parts);
PendingSave save_state_async(SavedTrainer& trainer, std::unique_ptr<AsyncSaver>& saver,
                             const Files::Path& path, const StateParts& parts);
void save_full_state(SavedTrainer& trainer, AsyncSaver* saver, const Files::Path& path,
                     const StateParts& parts);
void load_saved_state(SavedTrainer& trainer, AsyncSaver* saver, const Files::Path& path,
                      const StateParts& parts);

}  // namespace detail

/// Saves and loads the state of `Self`, in memory and in files, and its model's weights. The
/// guarantees are in docs/state.md.
template <class Self>
class SaveAndLoad {
 public:
  /// Returns a copy of everything that the next step depends on: parameters, buffers, moments,
  /// schedule, loss scale, random generators, and the given parts. `restore` loads it bit for bit.
  /// For a state that does not fit, `restore` throws BadState with every mismatch and changes
  /// nothing.
  StateDict state(const StateParts& parts = {}) {
    StateDict dict = detail::SavedTrainerOf<Self>(self()).tensors(parts);
    for (auto& [name, tensor] : dict) tensor = tensor.clone();
    return dict;
  }

  /// Writes the state to a safetensors file, which Python can read: the model's tensors under their
  /// own names, the rest under `ikebana.`. An existing file is kept until the new one is durable.
  /// If there are several ranks, all call it: each writes a file of its own beside `path`, in a
  /// folder that all share, and the file at `path` then names these files. Throws FileFailed for an
  /// error of the system.
  void save(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::SavedTrainerOf<Self> trainer(self());
    detail::save_state(trainer, saver_.get(), path, parts);
  }
  /// Returns after the state is copied in memory; a thread writes the copy. The copy's memory is
  /// kept for the next save. Call `wait()` of the result to wait until the file is durable, on
  /// several ranks until the files of all ranks are. If no code waits, the next save throws the
  /// error of this one.
  PendingSave save_async(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::SavedTrainerOf<Self> trainer(self());
    return detail::save_state_async(trainer, saver_, path, parts);
  }
  /// Writes one file, as one rank would, also on several ranks, which all call it: each writes its
  /// rows to their places in the file, and needs no memory for other rows. The file loads like a
  /// state that one rank saved. The folder must be one that all ranks share.
  void save_full(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::SavedTrainerOf<Self> trainer(self());
    detail::save_full_state(trainer, saver_.get(), path, parts);
  }
  /// Loads what `save` wrote, bit for bit, on any number of ranks, which all call it. Throws
  /// BadFile for a damaged file, and BadState with every mismatch for one that does not fit; in
  /// both cases nothing is changed.
  void load(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::SavedTrainerOf<Self> trainer(self());
    detail::load_saved_state(trainer, saver_.get(), path, parts);
  }
  /// Returns the metadata that `save` writes, for a program that writes a state itself:
  /// `save_tensors(path, trainer.state(), trainer.metadata())`.
  Metadata metadata() {
    detail::SavedTrainerOf<Self> trainer(self());
    return detail::metadata_of(trainer);
  }

  /// Loads the model's weights alone, also from files that Python wrote. An average of the weights
  /// starts again from them; the optimizer's moments are not changed. Throws as
  /// `ikebana::load_weights`, and then nothing is changed.
  UnmatchedWeights load_weights(const std::filesystem::path& path,
                                const WeightOptions& options = {}) {
    UnmatchedWeights unmatched;
    self().replace_weights(
        [&](auto& model) { unmatched = ikebana::load_weights(model, path, options); });
    return unmatched;
  }
  /// Writes the model's weights alone, as `evaluate` uses them: their average if the recipe has
  /// one, or with `.averaged = false` the trained weights. If there are several ranks, all call it,
  /// and the first writes the file.
  void save_weights(const std::filesystem::path& path, const WeightOptions& options = {}) {
    auto save = [&](auto& model) {
      if (self().rank() == 0) ikebana::save_weights(model, path, options);
    };
    self().with_full_weights(save, {.averaged = options.averaged});
  }

  // The former names below are removed in version 0.2.
  /// Calls `with_full_weights(f, {.averaged = true})`.
  template <class F>
  [[deprecated("use with_full_weights(f, {.averaged = true})")]] decltype(auto)
  with_averaged_weights(F&& f) {
    return self().with_full_weights(std::forward<F>(f), {.averaged = true});
  }
  /// Returns the tensors that `state` copies, without copies: valid until the next step.
  [[deprecated("use state")]] StateDict state_view(const StateParts& parts = {}) {
    return detail::SavedTrainerOf<Self>(self()).tensors(parts);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  std::unique_ptr<AsyncSaver> saver_;  // created by the first asynchronous save
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/save_and_load.ipp>
#endif
