#pragma once
// Defines files in memory, which hold only what is not zero, and a disk that fails. It is
// independent of LibTorch.
#include <algorithm>
#include <cstring>
#include <ikebana/error.hpp>
#include <ikebana/posix/files.hpp>
#include <map>

namespace test {

/// Files may have any size: blocks of zeros take no memory.
class SparseFiles : public ikebana::Files {
 public:
  static constexpr std::uint64_t never = ~std::uint64_t{0}, block = 4096;

  /// Makes an operation fail, whose number is counted from here on.
  void fail_at(std::uint64_t operation) { left_ = operation; }

  void put(const Path& path, std::string_view bytes) {
    files_[path] = {};
    Output(*this, files_[path]).put(0, bytes.data(), bytes.size());
  }
  std::string bytes(const Path& path) {
    Input file(files_.at(path));
    std::string all(file.size(), '\0');
    file.read(0, all.data(), all.size());
    return all;
  }
  std::uint64_t size(const Path& path) const { return files_.at(path).size; }

  std::unique_ptr<ikebana::OutputFile> create(const Path& path, std::uint64_t) override {
    count();
    files_[path] = {};
    return std::make_unique<Output>(*this, files_[path]);
  }
  std::unique_ptr<ikebana::OutputFile> open_to_write(const Path& path) override {
    return std::make_unique<Output>(*this, files_.at(path));
  }
  std::unique_ptr<ikebana::InputFile> open(const Path& path) override {
    if (!exists(path)) throw ikebana::FileFailed("test: there is no file " + path.string());
    return std::make_unique<Input>(files_.at(path));
  }
  bool exists(const Path& path) override { return files_.count(path) != 0; }
  void rename(const Path& from, const Path& to) override {
    count();
    files_[to] = std::move(files_.at(from));
    files_.erase(from);
  }
  bool link(const Path& from, const Path& to) override {
    count();
    files_[to] = files_.at(from);
    return true;
  }
  void remove(const Path& path) override { files_.erase(path); }
  void sync_folder(const Path&) override { count(); }
  void make_folder(const Path&) override {}
  std::vector<std::string> list(const Path&) override { return {}; }

 private:
  struct File {
    std::uint64_t size = 0;
    std::map<std::uint64_t, std::string> blocks;  // the blocks, by their number
  };
  class Output : public ikebana::OutputFile {
   public:
    Output(SparseFiles& files, File& file) : files_(files), file_(file) {}
    void write(std::uint64_t offset, const void* bytes, std::size_t n) override {
      files_.count();
      put(offset, static_cast<const char*>(bytes), n);
    }
    void sync() override { files_.count(); }
    void put(std::uint64_t offset, const char* from, std::size_t n) {
      static const std::string zeros(block, '\0');
      file_.size = std::max(file_.size, offset + n);
      while (n > 0) {
        const std::uint64_t at = offset % block, part = std::min<std::uint64_t>(n, block - at);
        const auto found = file_.blocks.find(offset / block);
        if (found != file_.blocks.end() || std::memcmp(from, zeros.data(), part) != 0) {
          std::string& to = file_.blocks[offset / block];
          to.resize(block);
          std::memcpy(to.data() + at, from, part);
        }
        from += part, offset += part, n -= part;
      }
    }

   private:
    SparseFiles& files_;
    File& file_;
  };
  class Input : public ikebana::InputFile {
   public:
    explicit Input(const File& file) : file_(file) {}
    std::uint64_t size() override { return file_.size; }
    void read(std::uint64_t offset, void* bytes, std::size_t n) override {
      if (offset > file_.size || n > file_.size - offset)
        throw std::logic_error("a read behind the end");
      for (auto* to = static_cast<char*>(bytes); n > 0;) {
        const std::uint64_t at = offset % block, part = std::min<std::uint64_t>(n, block - at);
        const auto found = file_.blocks.find(offset / block);
        if (found == file_.blocks.end()) std::memset(to, 0, part);
        else std::memcpy(to, found->second.data() + at, part);
        to += part, offset += part, n -= part;
      }
    }

   private:
    const File& file_;
  };

  void count() {
    if (left_ != never && left_-- == 0) {
      left_ = never;
      throw ikebana::FileFailed("test: the disk failed");
    }
  }

  std::map<Path, File> files_;
  std::uint64_t left_ = never;
};

}  // namespace test
