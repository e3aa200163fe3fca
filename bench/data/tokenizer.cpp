// Measures how fast texts are encoded on one thread; tokenizer.py runs it beside Python's
// tokenizers.
//
//     tokenizer TOKENIZER.json TEXTS IDS
//
// TEXTS has, for each text, its size in four bytes and the text. Prints the seconds of a first pass
// over all texts and of a second one, and of decoding all ids; writes the ids to IDS.
#include <chrono>
#include <cstdio>
#include <ikebana/tokenizer/streaming_decoder.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto load = Clock::now();
  const auto tokenizer = ikebana::Tokenizer::from_file(argv[1]);
  std::printf("%.6f", seconds_since(load));
  const std::string all = ikebana::detail::tokenizer::read_whole(argv[2]);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size();) {
    std::uint32_t n = 0;
    std::memcpy(&n, all.data() + at, sizeof n);
    texts.push_back(all.substr(at + sizeof n, n));
    at += sizeof n + n;
  }
  std::vector<std::vector<std::int32_t>> ids(texts.size());
  for (int pass = 0; pass < 2; ++pass) {
    const auto begin = Clock::now();
    for (std::size_t i = 0; i < texts.size(); ++i) ids[i] = tokenizer.encode(texts[i]);
    std::printf(" %.6f", seconds_since(begin));
  }
  const auto begin = Clock::now();
  std::size_t bytes = 0;
  for (const auto& some : ids) bytes += tokenizer.decode(some).size();
  std::printf(" %.6f %zu\n", seconds_since(begin), bytes);
  std::FILE* file = std::fopen(argv[3], "wb");
  if (file == nullptr) return 2;
  for (const auto& some : ids) std::fwrite(some.data(), sizeof some[0], some.size(), file);
  return std::fclose(file);
}
