#pragma once
// Defines a disk of one rank that fails, or whose process is killed.
#include <ikebana/posix/posix_files.hpp>
#include <limits>

namespace test::ranks {

using namespace ikebana;

inline constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// Thrown instead of a kill: the process does nothing any more.
struct Killed {};

/// The system's files until operation `at`, which fails; or with `kills`, all from then on.
class FailingFiles : public Files {
 public:
  FailingFiles(std::int64_t at, bool kills) : at_(at), kills_(kills) {}
  bool has_failed() const { return operations_ > at_; }

  std::unique_ptr<OutputFile> create(const Path& path, std::uint64_t size) override {
    operate();
    return std::make_unique<Output>(*this, system_files().create(path, size));
  }
  std::unique_ptr<OutputFile> open_to_write(const Path& path) override {
    operate();
    return std::make_unique<Output>(*this, system_files().open_to_write(path));
  }
  std::unique_ptr<InputFile> open(const Path& path) override {
    operate();
    return system_files().open(path);
  }
  bool exists(const Path& path) override { return operate(), system_files().exists(path); }
  void rename(const Path& from, const Path& to) override {
    operate(), system_files().rename(from, to);
  }
  bool link(const Path& from, const Path& to) override {
    return operate(), system_files().link(from, to);
  }
  void remove(const Path& path) override {
    if (kills_ && operations_ > at_) return;  // what would clean up does nothing either
    operate(), system_files().remove(path);
  }
  void sync_folder(const Path& folder) override { operate(), system_files().sync_folder(folder); }
  void make_folder(const Path& folder) override { operate(), system_files().make_folder(folder); }
  std::vector<std::string> list(const Path& folder) override {
    return operate(), system_files().list(folder);
  }

 private:
  struct Output : OutputFile {
    FailingFiles& files;
    std::unique_ptr<OutputFile> file;
    Output(FailingFiles& f, std::unique_ptr<OutputFile> o) : files(f), file(std::move(o)) {}
    void write(std::uint64_t offset, const void* bytes, std::size_t n) override {
      files.operate(), file->write(offset, bytes, n);
    }
    void sync() override { files.operate(), file->sync(); }
  };
  void operate() {
    const std::int64_t now = operations_++;
    if (kills_ && now >= at_) throw Killed();
    if (now == at_) throw FileFailed("files: operation " + std::to_string(now) + " fails");
  }

  std::int64_t at_, operations_ = 0;
  bool kills_;
};

}  // namespace test::ranks
