#pragma once
// Writes small csv files for tests.
#include "test.hpp"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <ikebana/files/csv.hpp>
#include <limits>
#include <random>

namespace test::files {

/// Writes a text to a file of this process and returns its path.
inline std::string write_file(const std::string& text, const std::string& name = "table.csv") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ikebana-files-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream((folder / name).string(), std::ios::binary) << text;
  return (folder / name).string();
}

inline ikebana::Table read(const std::string& text, const ikebana::CsvOptions& options = {}) {
  return ikebana::read_csv(write_file(text), options);
}

}  // namespace test::files
