#pragma once
// Where a test writes.
#include <unistd.h>

#include <filesystem>
#include <string>

namespace test {

/// A folder that is gone when the test is.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("ikebana." + std::to_string(::getpid()) + "." +
                                std::to_string(reinterpret_cast<std::uintptr_t>(this)));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const char* name) const { return path / name; }
};

}  // namespace test
