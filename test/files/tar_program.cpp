// Writes the samples of tar files, for oracle_tar.py: key, extension and bytes (hexadecimal), one
// line per file, for each pattern among its arguments.
#include <ikebana/files/tar_shards.hpp>
#include <ikebana/state/files/json.hpp>

#include <iostream>

using namespace ikebana;

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    const TarShards shards(arguments[i]);
    std::cout << shards.size() << '\n';
    for (std::int64_t index = 0; index < shards.size(); ++index) {
      const TarSample sample = shards.get(index);
      for (const auto& [extension, bytes] : sample.files) {
        std::cout << Json::quoted(sample.key) << ' ' << Json::quoted(extension) << " \"";
        for (const char c : bytes)
          std::cout << "0123456789abcdef"[static_cast<unsigned char>(c) / 16]
                    << "0123456789abcdef"[static_cast<unsigned char>(c) % 16];
        std::cout << "\"\n";
      }
    }
  }
}
