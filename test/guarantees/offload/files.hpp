#pragma once
// Looks at the files of Offload<Disk>: what this process has open in a folder, and how much of it
// is in memory.
#include "offload.hpp"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

namespace guarantees::offload::disk {

namespace fs = std::filesystem;
/// A folder that is removed with what is in it.
struct OwnFolder {
  fs::path path = folder / ("offload-disk-" + std::to_string(::getpid()));
  OwnFolder() { fs::create_directory(path); }
  ~OwnFolder() { fs::remove_all(path); }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
};

/// Memory of this process that is a file of a folder, which has no name there.
struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::int64_t resident = 0;  // bytes
  bool has(const at::Tensor& t) const {
    const auto at = reinterpret_cast<std::uintptr_t>(t.const_data_ptr());
    return begin <= at && at < end;
  }
};
inline std::vector<Mapping> mappings(const fs::path& of) {
  std::vector<Mapping> all;
  std::ifstream file("/proc/self/smaps");
  bool is_ours = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.find('-') != std::string::npos) {
      is_ours = test::contains(line, of.string() + "/") && line.ends_with("(deleted)");
      char dash = 0;
      Mapping mapping;
      if (is_ours)
        std::istringstream(first) >> std::hex >> mapping.begin >> dash >> mapping.end,
            all.push_back(mapping);
    } else if (is_ours && first == "Rss:") {
      words >> all.back().resident;
      all.back().resident *= 1024;
    }
  }
  return all;
}
inline std::int64_t resident(const fs::path& of) {
  std::int64_t bytes = 0;
  for (const Mapping& mapping : mappings(of)) bytes += mapping.resident;
  return bytes;
}
inline bool is_mapped(const at::Tensor& t, const std::vector<Mapping>& all) {
  return std::any_of(all.begin(), all.end(), [&](const Mapping& m) { return m.has(t); });
}
struct OpenFiles {
  int count = 0;
  std::int64_t bytes = 0;  // the bytes of the disk
};
/// Returns the files of the folder that this process has open. Each has no name, and takes as many
/// blocks of the disk as it is long.
inline OpenFiles open_files(const fs::path& of) {
  OpenFiles files;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (!target.starts_with(of.string() + "/")) continue;
    CHECK(target.ends_with("(deleted)"));
    struct stat file{};
    REQUIRE(::stat(entry.path().c_str(), &file) == 0);
    CHECK(file.st_size > 0);
    CHECK(file.st_blocks * 512 >= file.st_size);
    CHECK(file.st_nlink == 0);
    ++files.count, files.bytes += file.st_blocks * 512;
  }
  return files;
}

}  // namespace guarantees::offload::disk
