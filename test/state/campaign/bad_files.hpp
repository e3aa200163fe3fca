#pragma once
// A small saved state with everything in it, and the verdict on what was made of its file.
#include <ikebana/state/saved_state.hpp>
#include <string>

#include "state/campaign/campaign.hpp"

namespace campaign {

/// The file that a trainer with AdamW's moments, an average, a loss scale and batch norm saves.
std::string saved_trainer();

/// Files in memory, to read only, of which one has another content in each case.
class Shelf : public ikebana::Files {
 public:
  std::map<Path, std::string> files;

  std::unique_ptr<ikebana::InputFile> open(const Path& path) override;
  bool exists(const Path& path) override { return files.count(path) != 0; }
  std::unique_ptr<ikebana::OutputFile> create(const Path&, std::uint64_t) override { none(); }
  void rename(const Path&, const Path&) override { none(); }
  bool link(const Path&, const Path&) override { none(); }
  void remove(const Path&) override { none(); }
  void sync_folder(const Path&) override { none(); }
  void make_folder(const Path&) override { none(); }
  std::vector<std::string> list(const Path&) override { none(); }

 private:
  [[noreturn]] static void none() { throw std::logic_error("reading changes a file"); }
};

/// Loads files that may be damaged, as `trainer.load` does.
class Judge {
 public:
  explicit Judge(std::string name);

  /// Throws where loading does anything else than give a state or throw BadFile whose text names
  /// byte and field, or takes more memory than the file's size and 1 MiB. Null: it was rejected.
  const ikebana::TensorFile* load(std::string bytes);
  /// Rejected, or loaded as exactly the state that was saved.
  void original_or_rejected(std::string bytes, const std::string& what);

  const std::string& original() const { return original_; }
  const ikebana::StateDict& state() const { return state_.tensors; }
  [[noreturn]] void fail(const std::string& what) const;
  void print(const std::string& more = "") const;

 private:
  void check_message(std::uint64_t size) const;

  std::string name_, original_, message_;
  Shelf shelf_;
  ikebana::TensorFile state_, found_;
  std::int64_t cases_ = 0, loaded_ = 0, rejected_ = 0, most_memory_ = 0;
};

}  // namespace campaign
