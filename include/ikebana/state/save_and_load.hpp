#pragma once
// The methods that save and load, shared by Trainer and AnyTrainer.
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/check_path.hpp>
#include <ikebana/state/full_state.hpp>
#include <ikebana/state/rank_files.hpp>
#include <ikebana/state/save_on_ranks.hpp>
#include <ikebana/state/weights.hpp>

namespace ikebana {

/// Saves and loads the state of `Self`, in memory and in files, and its model's weights. The
/// guarantees are in docs/state.md.
template <class Self>
class SaveAndLoad {
 public:
  /// A copy of everything that the next step depends on: parameters, buffers, moments, schedule,
  /// loss scale, random generators, and the given parts. `restore` loads it bit for bit. For a
  /// state that does not fit, `restore` throws BadState with every mismatch and changes nothing.
  StateDict state(const StateParts& parts = {}) {
    StateDict dict = self().state_view(parts);
    for (auto& [name, tensor] : dict) tensor = tensor.clone();
    return dict;
  }

  /// Writes the state to a safetensors file, which Python can read: the model's tensors under their
  /// own names, the rest under `ikebana.`. An existing file is kept until the new one is durable.
  /// Of several ranks all call it: each writes a file of its own beside `path`, in a folder that
  /// all share, and the file at `path` then names them. Throws FileFailed for an error of the
  /// system.
  void save(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::check_path(path, "save");
    if (saver_) saver_->finish();  // an asynchronous save may be writing the same file
    if (!self().several_ranks())
      return save_tensors(path, self().rank_state(parts).tensors, metadata());
    detail::save_on_ranks(self(), parts, {path}, system_files(), cleaning(path));
  }
  /// Returns when the state is copied in memory; a thread writes the copy. The copy's memory is
  /// kept for the next save. Call `wait()` of the result to wait until the file is durable, on
  /// several ranks those of all. If no code waits, the next save throws the error of this one.
  PendingSave save_async(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::check_path(path, "save_async");
    if (!saver_) saver_ = std::make_unique<AsyncSaver>();
    if (self().several_ranks())
      return detail::save_async_on_ranks(self(), *saver_, parts, {path}, system_files(),
                                         cleaning(path));
    auto write = [path, metadata = metadata()](const StateDict& copy) {
      save_tensors(path, copy, metadata);
    };
    return saver_->save(self().rank_state(parts).tensors, std::move(write));
  }
  /// Writes one file as of one rank, also on several ranks, which all call it: each writes its rows
  /// to the places where they belong, and none has more in memory. Loading it is as loading a
  /// state that one rank saved. The folder must be one that all ranks share.
  void save_full(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::check_path(path, "save_full");
    if (!self().several_ranks()) return save(path, parts);
    if (saver_) saver_->finish();
    detail::save_full_on_ranks(self(), parts, path, system_files());
  }
  /// Loads what `save` wrote, bit for bit, on any number of ranks, which all call it. Throws
  /// BadFile for a damaged file, and BadState with every mismatch for one that does not fit; then
  /// nothing is changed.
  void load(const std::filesystem::path& path, const StateParts& parts = {}) {
    detail::check_path(path, "load");
    if (saver_) saver_->finish();  // so that it finds the last save
    if (!self().several_ranks()) {
      RankState state{detail::load_state(system_files(), path).tensors, {}};
      return self().restore_rows(std::move(state), parts);
    }
    detail::load_on_ranks(self(), parts, path, system_files());
  }
  /// The metadata of a saved state.
  Metadata metadata() {
    return {{"ikebana", "1"},
            {"ikebana.steps", std::to_string(self().steps())},
            {"ikebana.recipe", self().describe()}};
  }

  /// Loads the model's weights alone, also from files that Python wrote. An average of the weights
  /// starts anew from them; the optimizer's moments are not changed. Throws as
  /// `ikebana::load_weights`, and then nothing is changed.
  UnmatchedWeights load_weights(const std::filesystem::path& path,
                                const WeightOptions& options = {}) {
    UnmatchedWeights unmatched;
    self().replace_weights(
        [&](auto& model) { unmatched = ikebana::load_weights(model, path, options); });
    return unmatched;
  }
  /// Writes the model's weights alone: those that `evaluate` uses, which are the average where the
  /// recipe has one, or with `.averaged = false` those that are trained. Of several ranks all call
  /// it, and the first writes the file.
  void save_weights(const std::filesystem::path& path, const WeightOptions& options = {}) {
    auto save = [&](auto& model) {
      if (self().rank() == 0) ikebana::save_weights(model, path, options);
    };
    if (options.averaged) self().with_averaged_weights(save);
    else self().with_full_weights(save);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }
  static detail::Clean cleaning(const std::filesystem::path& path) {
    return [path] { detail::remove_unnamed(system_files(), path); };
  }

  std::unique_ptr<AsyncSaver> saver_;  // created by the first asynchronous save
};

}  // namespace ikebana
