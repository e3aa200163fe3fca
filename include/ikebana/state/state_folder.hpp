#pragma once
// The saved states of one training, in a folder: the newest few, and the best.
#include <ikebana/state/saved_state.hpp>
#include <optional>
#include <set>

namespace ikebana {

/// `step-000000000123.safetensors`, one a state; none is removed before a newer one is on the disk.
/// May be used by one thread at a time.
class StateFolder {
 public:
  /// Keeps the newest `keep`.
  StateFolder(std::filesystem::path folder, std::int64_t keep, Files& files)
      : folder_(std::move(folder)), keep_(keep), files_(files) {}

  ~StateFolder() {
    if (lock_) detail::remove_quietly(files_, folder_ / lock);
  }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  /// Makes the folder and takes it for this process, as long as this lives; what a save that was
  /// cut short left is removed. Throws FileFailed, also where another process has it.
  void open() {
    files_.make_folder(folder_);
    lock_ = files_.create(folder_ / lock, 0);
    for (const std::string& name : files_.list(folder_))
      if (name.ends_with(std::string(ending) + detail::fresh_ending)) files_.remove(folder_ / name);
  }
  std::filesystem::path path_of(std::int64_t step) const {
    std::string digits = std::to_string(step);
    digits.insert(0, digits.size() < 12 ? 12 - digits.size() : 0, '0');
    return folder_ / (prefix + digits + ending);
  }
  std::filesystem::path best() const { return folder_ / (std::string("best") + ending); }
  /// Steps that have a state, whole or not, the newest first.
  std::vector<std::int64_t> steps() const {
    std::set<std::int64_t, std::greater<>> all;
    for (const std::string& name : files_.list(folder_))
      for (const char* last : {"", detail::former_ending})
        if (auto step = step_of(name, ending + std::string(last))) all.insert(*step);
    return {all.begin(), all.end()};
  }
  /// The newest state that is whole; nothing where there is none at all. Warns of each that is
  /// passed over, and throws BadFile where all are damaged.
  std::optional<TensorFile> newest() {
    const auto all = steps();
    for (const std::int64_t step : all) try {
        return detail::load_state(files_, path_of(step));
      } catch (const Error& error) {
        TORCH_WARN("resume: passed over a state: ", error.what());
        passed_over_.insert(step);
      }
    if (all.empty()) return std::nullopt;
    throw BadFile("resume: none of the " + std::to_string(all.size()) + " states in `" +
                  folder_.string() + "` is whole. Remove them to begin anew.");
  }
  /// Writes the state of a step, then removes what is older than those that are kept. What `newest`
  /// passed over is none of them, though it may be newer.
  void save(std::int64_t step, const StateDict& state, const Metadata& metadata, bool is_best) {
    // The best first: who is killed in between goes on from before it, and finds it once more.
    if (is_best) save_tensors(best(), state, metadata, files_);
    if (!is_best || !names_best(step)) save_tensors(path_of(step), state, metadata, files_);
    passed_over_.erase(step);
    std::int64_t kept = 0;
    for (const std::int64_t found : steps())
      if (kept == keep_) remove(found);
      else if (!passed_over_.count(found)) ++kept;
  }

 private:
  static constexpr const char *prefix = "step-", *ending = ".safetensors", *lock = "fit.lock";

  static std::optional<std::int64_t> step_of(std::string_view name, std::string_view last) {
    if (!name.starts_with(prefix) || !name.ends_with(last)) return std::nullopt;
    name.remove_prefix(std::string_view(prefix).size()), name.remove_suffix(last.size());
    if (name.size() < 12 || name.size() > 18 ||
        name.find_first_not_of("0123456789") != std::string_view::npos)
      return std::nullopt;
    return std::stoll(std::string(name));
  }
  void remove(std::int64_t step) {
    files_.remove(path_of(step));
    files_.remove(detail::with_ending(path_of(step), detail::former_ending));
  }
  /// Gives the best the name of a step, too; false where files have only one.
  bool names_best(std::int64_t step) {
    const auto fresh = detail::with_ending(path_of(step), detail::fresh_ending);
    files_.remove(fresh);
    if (!files_.link(best(), fresh)) return false;
    files_.rename(fresh, path_of(step));
    files_.sync_folder(folder_);
    return true;
  }

  std::filesystem::path folder_;
  std::int64_t keep_;
  Files& files_;
  std::unique_ptr<OutputFile> lock_;
  std::set<std::int64_t> passed_over_;
};

}  // namespace ikebana
