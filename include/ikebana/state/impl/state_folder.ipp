#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <ikebana/state/saved_state.hpp>
#include <ikebana/state/state_folder.hpp>

namespace ikebana {

IKEBANA_INLINE StateFolder::~StateFolder() {
  if (lock_) detail::remove_quietly(files_, folder_ / lock_name);
}

IKEBANA_INLINE void StateFolder::open() {
  files_.make_folder(folder_);
  lock_ = files_.create(folder_ / lock_name, 0);
  const std::string suffix = std::string(extension) + detail::new_suffix;
  for (const std::string& name : files_.list(folder_))
    if (step_of(name, suffix) || name == best_path().filename().string() + detail::new_suffix)
      files_.remove(folder_ / name);
  remove_unnamed();
}

IKEBANA_INLINE std::filesystem::path StateFolder::path_of(std::int64_t step) const {
  std::string digits = std::to_string(step);
  digits.insert(0, digits.size() < 12 ? 12 - digits.size() : 0, '0');
  return folder_ / (prefix + digits + extension);
}

IKEBANA_INLINE std::vector<std::int64_t> StateFolder::steps() const {
  std::set<std::int64_t, std::greater<>> all;
  for (const std::string& name : files_.list(folder_))
    for (const char* suffix : {"", detail::former_suffix})
      if (auto step = step_of(name, extension + std::string(suffix))) all.insert(*step);
  return {all.begin(), all.end()};
}

IKEBANA_INLINE std::optional<TensorFile> StateFolder::newest() {
  const auto all = steps();
  for (const std::int64_t step : all) try {
      return detail::load_state(files_, path_of(step));
    } catch (const Error& error) {
      skip(step, error.what());
    }
  if (all.empty()) return std::nullopt;
  throw BadFile("resume: none of the " + std::to_string(all.size()) + " states in `" +
                folder_.string() + "` is intact. Remove them to start a new training.");
}

IKEBANA_INLINE void StateFolder::save(std::int64_t step, const StateDict& state,
                                      const Metadata& metadata, bool is_best) {
  // Saves the best state first: a training that is killed in between resumes from an earlier step
  // and saves the best again.
  if (is_best) save_tensors(best_path(), state, metadata, files_);
  if (!is_best || !link_best(step)) save_tensors(path_of(step), state, metadata, files_);
  clean(step);
}

IKEBANA_INLINE detail::StatePaths StateFolder::paths_of(std::int64_t step, bool is_best) const {
  if (is_best) return {best_path(), path_of(step)};
  return {path_of(step)};
}

IKEBANA_INLINE void StateFolder::clean(std::int64_t step) {
  skipped_steps_.erase(step);
  std::int64_t kept = 0;
  for (const std::int64_t found : steps())
    if (kept == keep_ || (found > step && !skipped_steps_.count(found))) remove(found);
    else if (!skipped_steps_.count(found)) ++kept;
  remove_unnamed();
}

IKEBANA_INLINE void StateFolder::skip(std::int64_t step, const std::string& reason) {
  TORCH_WARN("resume: skipped a state: ", reason);
  skipped_steps_.insert(step);
}

IKEBANA_INLINE std::optional<std::int64_t> StateFolder::step_of(std::string_view name,
                                                                std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(std::string_view(prefix).size()), name.remove_suffix(suffix.size());
  if (name.size() < 12 || name.size() > 18 ||
      name.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return std::stoll(std::string(name));
}

IKEBANA_INLINE void StateFolder::remove_unnamed() {
  detail::remove_unnamed(files_, folder_, [this](const std::string& name) {
    return step_of(name, extension) || name == best_path().filename().string();
  });
}

IKEBANA_INLINE void StateFolder::remove(std::int64_t step) {
  files_.remove(path_of(step));
  files_.remove(detail::with_suffix(path_of(step), detail::former_suffix));
}

IKEBANA_INLINE bool StateFolder::link_best(std::int64_t step) {
  const auto new_path = detail::with_suffix(path_of(step), detail::new_suffix);
  files_.remove(new_path);
  if (!files_.link(best_path(), new_path)) return false;
  files_.rename(new_path, path_of(step));
  files_.sync_folder(folder_);
  return true;
}

}  // namespace ikebana
