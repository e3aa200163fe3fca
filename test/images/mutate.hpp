#pragma once
// Damages files at random, the same way in every run.
#include <algorithm>
#include <cstdint>
#include <string>

namespace test::images {

/// Returns the file with up to five changes: bytes that are replaced, inserted, removed, repeated
/// or set to a value that sizes and markers have.
inline std::string mutated(std::string file, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  auto draw = [&](std::size_t high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % high;
  };
  for (std::size_t n = draw(5) + 1; n > 0 && !file.empty(); --n) {
    // Half of the changes are among the first bytes, where the headers stand.
    const std::size_t range = draw(2) ? file.size() : std::min<std::size_t>(file.size(), 200);
    const std::size_t at = draw(range), length = std::min(draw(8) + 1, file.size() - at);
    constexpr char values[] = {0, 1, 127, -128, -1, -40, -38, 2};
    switch (draw(6)) {
      case 0:
        file[at] = static_cast<char>(draw(256));
        break;
      case 1:
        file[at] = static_cast<char>(file[at] ^ (1 << draw(8)));
        break;
      case 2:
        file[at] = values[draw(8)];
        break;
      case 3:
        file.insert(at, length, values[draw(8)]);
        break;
      case 4:
        file.erase(at, length);
        break;
      default:
        file.insert(draw(file.size()), file.substr(at, length * 16));
    }
  }
  return file;
}

}  // namespace test::images
