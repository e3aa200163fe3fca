#pragma once
// Defines a disk in memory that loses what was not synced. It is independent of LibTorch.
#include <deque>
#include <ikebana/posix/files.hpp>
#include <map>
#include <stdexcept>

#include "state/campaign/choices.hpp"

namespace campaign {

/// The guarantees of a file system: whether a rename is atomic, as with a journal, and whether
/// there are hard links.
struct FileSystem {
  bool journal = true, links = true;
};

/// Files and the names of folders, each as programs see them (`now`) and as they are on the disk.
/// Copying it copies everything. Open files must not outlive it.
class Disk : public ikebana::Files {
 public:
  /// The power fails during an operation; the disk is full, which is reported before anything is
  /// done; it is broken, which is reported when half is done, and what of a file could not be
  /// synced never will be (names will: a folder is small, and its next change writes all of it).
  enum class Fault { PowerLoss, Full, Broken };
  struct LostPower {};
  static constexpr std::int64_t never = -1;
  static constexpr std::size_t sector = 512;

  explicit Disk(FileSystem kind = {}) : kind_(kind) {}

  /// Operation `at` from here on has this fault; counting restarts.
  void plan(Fault fault, std::int64_t at) { fault_ = fault, at_ = at, operations_ = 0; }
  std::int64_t operations() const { return operations_; }
  /// Returns the disk after a power failure: what was durable, and any part of the rest.
  Disk after_loss(Choices& choices) const;
  /// Makes the disk what it is after only the program was killed: all operations took effect.
  void revive() { lost_ = false, plan(Fault::PowerLoss, never); }

  /// Adds files that are durable from the beginning.
  void put(const Path& path, std::string bytes);
  void put_link(const Path& from, const Path& to);
  const std::string& bytes(const Path& path) const { return files_.at(now_.at(path)).now; }
  FileSystem kind() const { return kind_; }

  std::unique_ptr<ikebana::OutputFile> create(const Path& path, std::uint64_t size) override;
  std::unique_ptr<ikebana::OutputFile> open_to_write(const Path&) override {
    throw std::logic_error("this disk is of one rank");
  }
  std::unique_ptr<ikebana::InputFile> open(const Path& path) override;
  bool exists(const Path& path) override { return now_.count(path) != 0; }
  void rename(const Path& from, const Path& to) override;
  bool link(const Path& from, const Path& to) override;
  void remove(const Path& path) override;
  void sync_folder(const Path& folder) override;
  void make_folder(const Path&) override {}
  std::vector<std::string> list(const Path& folder) override;

 private:
  class Output;
  class Input;
  struct File {
    std::string now, disk;
    std::vector<bool> dirty;  // sectors that a sync would write
  };
  using Names = std::map<Path, std::size_t>;
  /// A change of names: each is added or removed. With a journal, the parts of a rename are one
  /// change.
  struct Part {
    Path name;
    std::int64_t file;  // -1: the name is removed
  };
  using Change = std::vector<Part>;

  template <class F>
  void operation(F&& effect);
  void change(Change change);
  void write(std::size_t file, std::uint64_t offset, const char* bytes, std::size_t n);
  void sync(std::size_t file);
  static void apply(Names& names, const Part& part);
  Names names_after_loss(Choices& choices) const;
  std::string bytes_after_loss(const File& file, Choices& choices) const;

  FileSystem kind_;
  std::deque<File> files_;  // open files refer to elements
  Names now_, disk_;
  std::vector<Change> pending_;  // changes of names that are not durable
  Fault fault_ = Fault::PowerLoss;
  std::int64_t at_ = never, operations_ = 0;
  bool lost_ = false;
};

}  // namespace campaign
