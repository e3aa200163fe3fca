#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/ranks/full_state.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <ikebana/state/ranks/save_on_ranks.hpp>
#include <ikebana/state/save_and_load.hpp>

namespace ikebana::detail {

inline Clean cleaning(const Files::Path& path) {
  return [path] { remove_unnamed(system_files(), path); };
}

IKEBANA_INLINE void save_state(SavedTrainer& trainer, AsyncSaver* saver, const Files::Path& path,
                               const StateParts& parts) {
  check_path(path, "save");
  if (saver) saver->finish();  // an asynchronous save may be writing the same file
  if (!trainer.several_ranks())
    return save_tensors(path, trainer.rank_state(parts).tensors, metadata_of(trainer));
  save_on_ranks(trainer, parts, {path}, system_files(), cleaning(path));
}

IKEBANA_INLINE PendingSave save_state_async(SavedTrainer& trainer,
                                            std::unique_ptr<AsyncSaver>& saver,
                                            const Files::Path& path, const StateParts& parts) {
  check_path(path, "save_async");
  if (!saver) saver = std::make_unique<AsyncSaver>();
  if (trainer.several_ranks())
    return save_async_on_ranks(trainer, *saver, parts, {path}, system_files(), cleaning(path));
  auto write = [path, metadata = metadata_of(trainer)](const StateDict& copy) {
    save_tensors(path, copy, metadata);
  };
  return saver->save(trainer.rank_state(parts).tensors, std::move(write));
}

IKEBANA_INLINE void save_full_state(SavedTrainer& trainer, AsyncSaver* saver,
                                    const Files::Path& path, const StateParts& parts) {
  check_path(path, "save_full");
  if (!trainer.several_ranks()) return save_state(trainer, saver, path, parts);
  if (saver) saver->finish();
  save_full_on_ranks(trainer, parts, path, system_files());
}

IKEBANA_INLINE void load_saved_state(SavedTrainer& trainer, AsyncSaver* saver,
                                     const Files::Path& path, const StateParts& parts) {
  check_path(path, "load");
  if (saver) saver->finish();  // so that it finds the last save
  if (!trainer.several_ranks()) {
    RankState state{load_state(system_files(), path).tensors, {}};
    return trainer.restore_rows(std::move(state), parts);
  }
  load_on_ranks(trainer, parts, path, system_files());
}

}  // namespace ikebana::detail
