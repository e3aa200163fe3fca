#pragma once
// Writes small tar files for tests.
#include "csv_files.hpp"

#include <cstdio>

namespace test::files {

/// Returns a header and the bytes of one member in the format ustar.
inline std::string tar_member(const std::string& name, const std::string& bytes, char type = '0') {
  std::string block(512, '\0');
  auto put = [&](std::size_t at, const std::string& text) { block.replace(at, text.size(), text); };
  auto octal = [](std::size_t value, int digits) {
    char text[24];
    std::snprintf(text, sizeof text, "%0*zo", digits, value);
    return std::string(text);
  };
  put(0, name), put(100, "0000644"), put(124, octal(bytes.size(), 11)), put(136, "00000000000");
  put(148, "        "), put(257, std::string("ustar\0"
                                             "00",
                                             8));
  block[156] = type;
  std::size_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + '\0');
  return block + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}
inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace test::files
