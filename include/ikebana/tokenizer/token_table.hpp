#pragma once
// Hash tables of a vocabulary: the id of a token's text, its text by the id, and numbers by pairs.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// Mixes the bits of a number. Source: MurmurHash3's finalizer, shortened.
inline std::uint64_t mixed(std::uint64_t h) {
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return h ^ (h >> 32);
}
inline std::uint64_t hash_of(std::string_view text) {
  std::uint64_t h = text.size() * 0x9e3779b97f4a7c15u, part = 0;
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::memcpy(&part, text.data() + at, 8);
    h = mixed(h ^ part);
  }
  part = 0;
  if (at < text.size()) std::memcpy(&part, text.data() + at, text.size() - at);
  return mixed(h ^ part);
}

/// Texts of tokens and their ids.
class TokenTable {
 public:
  /// Ids are below this, so that a table by id fits in memory.
  static constexpr std::int64_t id_limit = std::int64_t{1} << 24;

  void reserve(std::size_t tokens);
  /// Returns false if the text or the id is there already.
  bool add(std::string_view text, std::int32_t id);
  std::int32_t find(std::string_view text) const {  ///< returns -1 for what is no token
    if (slots_.empty()) return -1;
    for (std::size_t i = hash_of(text) & mask();; i = (i + 1) & mask()) {
      if (slots_[i] == 0) return -1;
      const Entry& entry = entries_[slots_[i] - 1];
      if (text_of(entry) == text) return entry.id;
    }
  }
  bool has_id(std::int64_t id) const {
    return id >= 0 && id < end_id() && by_id_[static_cast<std::size_t>(id)] != 0;
  }
  std::string_view text(std::int32_t id) const {
    return text_of(entries_[by_id_[static_cast<std::size_t>(id)] - 1]);
  }
  std::size_t size() const { return entries_.size(); }
  std::int64_t end_id() const { return static_cast<std::int64_t>(by_id_.size()); }
  std::size_t longest() const { return longest_; }  ///< in bytes

 private:
  struct Entry {
    std::uint32_t begin, length;
    std::int32_t id;
  };
  std::size_t mask() const { return slots_.size() - 1; }
  std::string_view text_of(const Entry& e) const { return {bytes_.data() + e.begin, e.length}; }
  void rehash(std::size_t places);

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_, by_id_;  // indices of entries, plus one
  std::size_t longest_ = 0;
};

/// A map from pairs of numbers below 2^32 to two numbers.
class PairTable {
 public:
  struct Entry {
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t rank = 0;
    std::int32_t id = -1;
  };
  void reserve(std::size_t pairs);
  /// Replaces the value of a pair that is there already.
  void set(std::uint32_t a, std::uint32_t b, std::uint32_t rank, std::int32_t id);
  const Entry* find(std::uint32_t a, std::uint32_t b) const {
    if (slots_.empty()) return nullptr;
    const std::uint64_t key = key_of(a, b);
    for (std::size_t i = mixed(key) & mask();; i = (i + 1) & mask()) {
      if (slots_[i].key == key) return &slots_[i];
      if (slots_[i].id < 0) return nullptr;
    }
  }

 private:
  static std::uint64_t key_of(std::uint32_t a, std::uint32_t b) {
    return (std::uint64_t{a} << 32) | b;
  }
  std::size_t mask() const { return slots_.size() - 1; }
  std::vector<Entry> slots_;
  std::size_t size_ = 0;
};

inline std::size_t power_of_two_above(std::size_t n) {
  std::size_t power = 16;
  while (power < n) power *= 2;
  return power;
}

inline void TokenTable::reserve(std::size_t tokens) {
  entries_.reserve(tokens);
  rehash(power_of_two_above(tokens * 2));
}

inline void TokenTable::rehash(std::size_t places) {
  slots_.assign(places, 0);
  for (std::uint32_t e = 0; e < entries_.size(); ++e) {
    std::size_t i = hash_of(text_of(entries_[e])) & mask();
    while (slots_[i] != 0) i = (i + 1) & mask();
    slots_[i] = e + 1;
  }
}

inline bool TokenTable::add(std::string_view text, std::int32_t id) {
  if (find(text) >= 0 || has_id(id)) return false;
  if (entries_.size() * 2 >= slots_.size()) rehash(power_of_two_above(slots_.size() * 2));
  std::size_t i = hash_of(text) & mask();
  while (slots_[i] != 0) i = (i + 1) & mask();
  entries_.push_back(
      {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(text.size()), id});
  bytes_ += text;
  slots_[i] = static_cast<std::uint32_t>(entries_.size());
  if (id >= end_id()) by_id_.resize(static_cast<std::size_t>(id) + 1);
  by_id_[static_cast<std::size_t>(id)] = slots_[i];
  longest_ = std::max(longest_, text.size());
  return true;
}

inline void PairTable::reserve(std::size_t pairs) {
  std::vector<Entry> old(power_of_two_above(pairs * 2));
  old.swap(slots_);
  size_ = 0;
  for (const Entry& e : old)
    if (e.id >= 0)
      set(static_cast<std::uint32_t>(e.key >> 32), static_cast<std::uint32_t>(e.key), e.rank, e.id);
}

inline void PairTable::set(std::uint32_t a, std::uint32_t b, std::uint32_t rank, std::int32_t id) {
  if (size_ * 2 >= slots_.size()) reserve(std::max<std::size_t>(16, size_ * 2));
  const std::uint64_t key = key_of(a, b);
  std::size_t i = mixed(key) & mask();
  while (slots_[i].id >= 0 && slots_[i].key != key) i = (i + 1) & mask();
  size_ += slots_[i].id < 0;
  slots_[i] = {key, rank, id};
}

}  // namespace ikebana::detail::tokenizer
