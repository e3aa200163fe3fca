#pragma once
// Remembers the tokens of pieces: most pieces of a text are few. Each piece has one place, and a
// newer piece takes it, so that the cache has a fixed size.
#include <cstdint>
#include <cstring>
#include <ikebana/tokenizer/token_table.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// The tokens of pieces, for one thread.
class WordCache {
 public:
  /// If the piece is there, appends its tokens to `out` and returns true.
  bool find(std::string_view word, std::vector<std::int32_t>& out) const {
    if (word.size() <= 16) {
      const Key key = key_of(word);
      const Short& entry = short_[place(key)];
      if (entry.a != key.a || entry.b != key.b || (entry.sizes >> 8) != word.size()) return false;
      const std::uint32_t n = entry.sizes & 0xff;
      const std::size_t before = out.size();
      out.resize(before + n);
      for (std::uint32_t i = 0; i < n; ++i) out[before + i] = entry.ids[i];
      return true;
    }
    if (word.size() > longest) return false;
    const Long& entry = long_[hash_of(word) % long_places];
    if (entry.word != word) return false;
    out.insert(out.end(), entry.ids.begin(), entry.ids.end());
    return true;
  }
  /// Remembers `n` tokens of a piece, if they fit.
  void add(std::string_view word, const std::int32_t* ids, std::size_t n) {
    if (word.size() <= 16) {
      if (n > 3 || word.empty()) return;
      const Key key = key_of(word);
      Short& entry = short_[place(key)];
      entry = {key.a, key.b, static_cast<std::uint32_t>(word.size() << 8 | n), {}};
      for (std::size_t i = 0; i < n; ++i) entry.ids[i] = ids[i];
    } else if (word.size() <= longest) {
      long_[hash_of(word) % long_places] = {std::string(word), {ids, ids + n}};
    }
  }

 private:
  static constexpr std::size_t short_places = std::size_t{1} << 15, longest = 256;
  static constexpr std::size_t long_places = std::size_t{1} << 12;
  struct Key {
    std::uint64_t a, b;
  };
  struct Short {
    std::uint64_t a = 0, b = 0;
    std::uint32_t sizes = 0;  // the piece's bytes, times 256, and the number of tokens
    std::int32_t ids[3] = {};
  };
  struct Long {
    std::string word{};
    std::vector<std::int32_t> ids{};
  };
  /// Returns bytes which, with the size, determine a piece of up to 16 bytes.
  static Key key_of(std::string_view word) {
    const std::size_t n = word.size();
    Key key{0, 0};
    if (n >= 8) {
      std::memcpy(&key.a, word.data(), 8);
      std::memcpy(&key.b, word.data() + n - 8, 8);
    } else if (n >= 4) {
      std::uint32_t first = 0, last = 0;
      std::memcpy(&first, word.data(), 4);
      std::memcpy(&last, word.data() + n - 4, 4);
      key.a = first | std::uint64_t{last} << 32;
    } else if (n > 0) {
      auto byte = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<unsigned char>(word[i]));
      };
      key.a = byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16;
    }
    return key;
  }
  static std::size_t place(const Key& key) {
    return mixed(key.a * 0x9e3779b97f4a7c15u ^ key.b) % short_places;
  }
  std::vector<Short> short_{short_places};
  std::vector<Long> long_{long_places};
};

}  // namespace ikebana::detail::tokenizer
