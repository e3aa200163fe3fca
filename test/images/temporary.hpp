#pragma once
// A folder of files that a test writes.
#include <filesystem>
#include <fstream>
#include <string>

namespace test::images {

/// A temporary folder, removed at the end.
struct Folder {
  std::filesystem::path root;
  explicit Folder(const std::string& name)
      : root(std::filesystem::temp_directory_path() / ("ikebana_" + name)) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
  }
  ~Folder() { std::filesystem::remove_all(root); }
  std::filesystem::path write(const std::string& name, const std::string& bytes = {}) const {
    std::filesystem::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    return root / name;
  }
};

}  // namespace test::images
