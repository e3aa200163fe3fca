#pragma once
// Defines a temporary folder for a test.
#include <unistd.h>

#include <filesystem>
#include <string>

namespace test {

/// RAII: a new folder, which is removed at the end.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("ikebana." + std::to_string(::getpid()) + "." +
                                std::to_string(reinterpret_cast<std::uintptr_t>(this)));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path operator/(const char* name) const { return path / name; }
};

}  // namespace test
