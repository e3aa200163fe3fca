#pragma once
// The folder with the saved states of one training: the newest ones, and the best.
#include <ikebana/state/saved_state.hpp>
#include <optional>
#include <set>

namespace ikebana {

/// Holds one file per state, such as `step-000000000123.safetensors`; of several ranks also one for
/// each. None is removed before a newer one is durable. Of several ranks, the first one opens it,
/// asks for its steps and cleans it. May be used by one thread at a time.
class StateFolder {
 public:
  /// Keeps the newest `keep` states.
  StateFolder(std::filesystem::path folder, std::int64_t keep, Files& files)
      : folder_(std::move(folder)), keep_(keep), files_(files) {}

  ~StateFolder() {
    if (lock_) detail::remove_quietly(files_, folder_ / lock_name);
  }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  /// Creates the folder, locks it for the lifetime of this object, and removes what interrupted
  /// saves of its states left; other files stay. Throws FileFailed, also if another process has
  /// locked the folder.
  void open() {
    files_.make_folder(folder_);
    lock_ = files_.create(folder_ / lock_name, 0);
    const std::string suffix = std::string(extension) + detail::new_suffix;
    for (const std::string& name : files_.list(folder_))
      if (step_of(name, suffix) || name == best_path().filename().string() + detail::new_suffix)
        files_.remove(folder_ / name);
    remove_unnamed();
  }
  std::filesystem::path path_of(std::int64_t step) const {
    std::string digits = std::to_string(step);
    digits.insert(0, digits.size() < 12 ? 12 - digits.size() : 0, '0');
    return folder_ / (prefix + digits + extension);
  }
  std::filesystem::path best_path() const { return folder_ / (std::string("best") + extension); }
  /// The steps that have a state, intact or damaged, the newest first.
  std::vector<std::int64_t> steps() const {
    std::set<std::int64_t, std::greater<>> all;
    for (const std::string& name : files_.list(folder_))
      for (const char* suffix : {"", detail::former_suffix})
        if (auto step = step_of(name, extension + std::string(suffix))) all.insert(*step);
    return {all.begin(), all.end()};
  }
  /// The newest intact state; none if the folder holds no state. Skips states that are damaged or
  /// cannot be read, with a warning, and throws BadFile if no state is left.
  std::optional<TensorFile> newest() {
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
  /// Writes the state of a step, then removes all but the newest `keep`. States that `newest`
  /// skipped do not count as kept, even if they are of later steps. Other states of later steps are
  /// removed: the training went back, as by loading an earlier state, and they are older.
  void save(std::int64_t step, const StateDict& state, const Metadata& metadata, bool is_best) {
    // The best first: a training that is killed in between resumes from an earlier step and saves
    // the best again.
    if (is_best) save_tensors(best_path(), state, metadata, files_);
    if (!is_best || !link_best(step)) save_tensors(path_of(step), state, metadata, files_);
    clean(step);
  }
  /// Where several ranks save the state of a step.
  detail::StatePaths paths_of(std::int64_t step, bool is_best) const {
    if (is_best) return {best_path(), path_of(step)};
    return {path_of(step)};
  }
  /// The state of a step is durable.
  void clean(std::int64_t step) {
    skipped_steps_.erase(step);
    std::int64_t kept = 0;
    for (const std::int64_t found : steps())
      if (kept == keep_ || (found > step && !skipped_steps_.count(found))) remove(found);
      else if (!skipped_steps_.count(found)) ++kept;
    remove_unnamed();
  }
  /// It cannot be loaded, with a warning.
  void skip(std::int64_t step, const std::string& reason) {
    TORCH_WARN("resume: skipped a state: ", reason);
    skipped_steps_.insert(step);
  }

 private:
  static constexpr const char *prefix = "step-", *extension = ".safetensors",
                              *lock_name = "fit.ikebana-lock";

  static std::optional<std::int64_t> step_of(std::string_view name, std::string_view suffix) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
    name.remove_prefix(std::string_view(prefix).size()), name.remove_suffix(suffix.size());
    if (name.size() < 12 || name.size() > 18 ||
        name.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
    return std::stoll(std::string(name));
  }
  void remove_unnamed() {
    detail::remove_unnamed(files_, folder_, [this](const std::string& name) {
      return step_of(name, extension) || name == best_path().filename().string();
    });
  }
  void remove(std::int64_t step) {
    files_.remove(path_of(step));
    files_.remove(detail::with_suffix(path_of(step), detail::former_suffix));
  }
  /// Makes the file of a step a hard link to the best state. Returns false where there are no hard
  /// links.
  bool link_best(std::int64_t step) {
    const auto new_path = detail::with_suffix(path_of(step), detail::new_suffix);
    files_.remove(new_path);
    if (!files_.link(best_path(), new_path)) return false;
    files_.rename(new_path, path_of(step));
    files_.sync_folder(folder_);
    return true;
  }

  std::filesystem::path folder_;
  std::int64_t keep_;
  Files& files_;
  std::unique_ptr<OutputFile> lock_;
  std::set<std::int64_t> skipped_steps_;
};

}  // namespace ikebana
