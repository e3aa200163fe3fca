#pragma once
// Makes a small saved state with every kind of content, and checks how damaged copies of it load.
#include <ikebana/state/saved_state.hpp>
#include <string>

#include "state/campaign/campaign.hpp"

namespace campaign {

/// Returns the saved state of a trainer with AdamW's moments, an average, a loss scale and batch
/// norm.
std::string saved_trainer();

/// Read-only files in memory; in each case, one has another content.
class MemoryFiles : public ikebana::Files {
 public:
  std::map<Path, std::string> files;

  std::unique_ptr<ikebana::InputFile> open(const Path& path) override;
  bool exists(const Path& path) override { return files.count(path) != 0; }
  std::unique_ptr<ikebana::OutputFile> create(const Path&, std::uint64_t) override { refuse(); }
  std::unique_ptr<ikebana::OutputFile> open_to_write(const Path&) override { refuse(); }
  void rename(const Path&, const Path&) override { refuse(); }
  bool link(const Path&, const Path&) override { refuse(); }
  void remove(const Path&) override { refuse(); }
  void sync_folder(const Path&) override { refuse(); }
  void make_folder(const Path&) override { refuse(); }
  std::vector<std::string> list(const Path&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("loading changes a file"); }
};

/// Loads files that may be damaged, as `trainer.load` does.
class LoadChecker {
 public:
  explicit LoadChecker(std::string name);

  /// Returns the loaded file, or null if it was rejected. Throws unless loading gives a state or
  /// throws a BadFile that names byte and field, and takes at most the file's size and 1 MiB of
  /// memory.
  const ikebana::TensorFile* load(std::string bytes);
  /// Throws unless the file is rejected or loads as exactly the state that was saved.
  void original_or_rejected(std::string bytes, const std::string& what);

  const std::string& original() const { return original_; }
  const ikebana::StateDict& state() const { return state_.tensors; }
  [[noreturn]] void fail(const std::string& what) const;
  void print(const std::string& more = "") const;

 private:
  void check_message(std::uint64_t size) const;

  std::string name_, original_, message_;
  MemoryFiles files_;
  ikebana::TensorFile state_, found_;
  std::int64_t cases_ = 0, loaded_ = 0, rejected_ = 0, most_memory_ = 0;
};

}  // namespace campaign
