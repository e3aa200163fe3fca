#pragma once
// The verbs of saving, for whatever can show its state and take one back.
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/weights.hpp>

namespace ikebana {

/// What Trainer and AnyTrainer have in common: their state in memory, in files, and their model's
/// weights. docs/state.md says what is promised.
template <class Self>
class SaveAndLoad {
 public:
  /// Everything that the next step depends on, copied: parameters, buffers, moments, schedule, loss
  /// scale, random generators, and the parts given besides. `restore` takes it back to the bit; a
  /// state that does not fit throws BadState, which names all that does not, and changes nothing.
  StateDict state(const StateParts& parts = {}) {
    StateDict dict = self().state_view(parts);
    for (auto& [name, tensor] : dict) tensor = tensor.clone();
    return dict;
  }

  /// The same in a safetensors file, which Python opens: the model's tensors under their own names,
  /// the rest under `ikebana.`. The file that was there is kept until the new one is on the disk.
  /// Throws FileFailed for what the system refuses.
  void save(const std::filesystem::path& path, const StateParts& parts = {}) {
    if (saver_) saver_->finish();  // it may be writing the same file
    save_tensors(path, self().state_view(parts), metadata());
  }
  /// Waits only for a copy in memory, which is kept for the next; whoever wants to know that it is
  /// on the disk asks what is returned. An error that nobody asked for is thrown by the next.
  PendingSave save_async(const std::filesystem::path& path, const StateParts& parts = {}) {
    if (!saver_) saver_ = std::make_unique<AsyncSaver>();
    return saver_->save(path, self().state_view(parts), metadata());
  }
  /// Takes back what `save` wrote, to the bit. Throws BadFile for a damaged file, and BadState for
  /// one that does not fit, which names all that does not; then nothing is changed.
  void load(const std::filesystem::path& path, const StateParts& parts = {}) {
    if (saver_) saver_->finish();  // what was saved last is what is found
    self().restore(detail::load_state(system_files(), path).tensors, parts);
  }
  /// What a saved state says of itself.
  Metadata metadata() {
    return {{"ikebana", "1"},
            {"ikebana.steps", std::to_string(self().steps())},
            {"ikebana.recipe", self().describe()}};
  }

  /// The model's weights alone, also from files that Python wrote. Moments and averages stay.
  UnmatchedWeights load_weights(const std::filesystem::path& path,
                                const WeightOptions& options = {}) {
    UnmatchedWeights unmatched;
    self().with_full_weights(
        [&](auto& model) { unmatched = ikebana::load_weights(model, path, options); });
    return unmatched;
  }
  void save_weights(const std::filesystem::path& path, const WeightOptions& options = {}) {
    self().with_full_weights([&](auto& model) { ikebana::save_weights(model, path, options); });
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  std::unique_ptr<AsyncSaver> saver_;  // made when it is first wanted
};

}  // namespace ikebana
