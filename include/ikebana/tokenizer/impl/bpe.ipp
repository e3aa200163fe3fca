#pragma once
// Byte-pair encoding: the pair of neighbours with the lowest rank is merged, the leftmost first,
// until none is left. Source: Sennrich, Haddow and Birch 2016 (arXiv 1508.07909).
#include <ikebana/tokenizer/models.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <optional>
#include <queue>

namespace ikebana::detail::tokenizer {

/// Pieces of so many symbols or fewer are merged by looking at all pairs each time, which is faster
/// for them; longer ones by a heap.
inline constexpr std::size_t short_word = 40;

/// Merges symbols by a heap of pairs, in n log n.
class HeapMerger {
 public:
  HeapMerger(std::vector<WordToken>& symbols, const PairTable& merges)
      : symbols_(symbols), merges_(merges), links_(symbols.size()) {
    const auto n = static_cast<std::int32_t>(symbols.size());
    for (std::int32_t i = 0; i < n; ++i) links_[at(i)] = {i - 1, i + 1 < n ? i + 1 : -1};
    for (std::int32_t i = 0; i + 1 < n; ++i) push(i);
  }
  void run() {
    while (!queue_.empty()) {
      const Merge top = queue_.top();
      queue_.pop();
      const std::int32_t next = links_[at(top.position)].next;
      if (symbols_[at(top.position)].id < 0 || next < 0) continue;
      const auto* pair = find(top.position);
      if (pair == nullptr || pair->id != top.id) continue;  // one of the two was merged meanwhile
      symbols_[at(top.position)].id = top.id;
      symbols_[at(top.position)].end = symbols_[at(next)].end;
      symbols_[at(next)].id = -1;
      const std::int32_t after = links_[at(next)].next;
      links_[at(top.position)].next = after;
      if (after >= 0) links_[at(after)].previous = top.position;
      if (links_[at(top.position)].previous >= 0) push(links_[at(top.position)].previous);
      push(top.position);
    }
    std::erase_if(symbols_, [](const WordToken& symbol) { return symbol.id < 0; });
  }

 private:
  struct Link {
    std::int32_t previous, next;
  };
  struct Merge {
    std::uint32_t rank;
    std::int32_t position, id;
    bool operator<(const Merge& other) const {  // the lowest rank, then the leftmost, is on top
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  const PairTable::Entry* find(std::int32_t i) const {
    const std::int32_t next = links_[at(i)].next;
    if (next < 0) return nullptr;
    return merges_.find(static_cast<std::uint32_t>(symbols_[at(i)].id),
                        static_cast<std::uint32_t>(symbols_[at(next)].id));
  }
  void push(std::int32_t i) {
    if (const auto* pair = find(i)) queue_.push({pair->rank, i, pair->id});
  }
  std::vector<WordToken>& symbols_;
  const PairTable& merges_;
  std::vector<Link> links_;
  std::priority_queue<Merge> queue_;
};

/// Merges the symbols from `first` on by looking at all pairs, in n^2; `ranks` is scratch.
inline void merge_short(std::vector<WordToken>& symbols, std::size_t first,
                        const PairTable& merges) {
  constexpr std::uint32_t none = ~std::uint32_t{0};
  const PairTable::Entry* pairs[short_word];
  WordToken* s = symbols.data() + first;
  std::size_t n = symbols.size() - first;
  auto look = [&](std::size_t i) {
    pairs[i] =
        merges.find(static_cast<std::uint32_t>(s[i].id), static_cast<std::uint32_t>(s[i + 1].id));
  };
  for (std::size_t i = 0; i + 1 < n; ++i) look(i);
  while (n > 1) {
    std::uint32_t rank = none;
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < n; ++i)
      if (pairs[i] != nullptr && pairs[i]->rank < rank) rank = pairs[i]->rank, best = i;
    if (rank == none) break;
    s[best].id = pairs[best]->id, s[best].end = s[best + 1].end;
    for (std::size_t i = best + 1; i + 1 < n; ++i) s[i] = s[i + 1], pairs[i] = pairs[i + 1];
    --n;
    if (best + 1 < n) look(best);
    if (best > 0) look(best - 1);
  }
  symbols.resize(first + n);
}

class Bpe : public Model {
 public:
  Bpe(ModelFile&& file, Fields& fields) {
    unknown_ = fields.optional_string("unk_token").value_or("");
    has_unknown_ = fields.optional_string("unk_token").has_value();
    prefix_ = fields.string("continuing_subword_prefix", "");
    suffix_ = fields.string("end_of_word_suffix", "");
    fuses_unknown_ = fields.boolean("fuse_unk", false);
    falls_back_to_bytes_ = fields.boolean("byte_fallback", false);
    ignores_merges_ = fields.boolean("ignore_merges", false);
    if (const JsonValue* dropout = fields.find("dropout"))
      if (!dropout->is_null() && (dropout->kind != JsonValue::Kind::Number || dropout->number != 0))
        fields.refuse("dropout", "is not 0 or null, so that each encoding would be another one");
    vocabulary_ = std::move(file.vocabulary);
    unknown_id_ = vocabulary_.find(unknown_);
    if (!file.has_merges) fields.refuse("merges", "is missing");
    read_merges(file, fields);
  }

  void tokenize(std::string_view word, std::vector<WordToken>& out) const override {
    if (ignores_merges_)
      if (const std::int32_t id = vocabulary_.find(word); id >= 0)
        return out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
    const std::size_t first = out.size();
    append_symbols(word, out);
    const std::size_t n = out.size() - first;
    if (n < 2) return;
    if (n <= short_word) return merge_short(out, first, merges_);
    std::vector<WordToken> symbols(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
    HeapMerger(symbols, merges_).run();
    out.resize(first);
    out.insert(out.end(), symbols.begin(), symbols.end());
  }

 private:
  void read_merges(const ModelFile& file, Fields& fields) {
    merges_.reserve(file.merges.size());
    std::uint32_t rank = 0;
    for (const auto& [a, b] : file.merges) {
      const std::int32_t left = vocabulary_.find(a), right = vocabulary_.find(b);
      const std::string joined = a + (b.size() < prefix_.size() ? "" : b.substr(prefix_.size()));
      const std::int32_t id = vocabulary_.find(joined);
      if (left < 0 || right < 0 || id < 0)
        return fields.refuse("merges[" + std::to_string(rank) + "]",
                             "merges `" + Json::excerpt(a) + "` and `" + Json::excerpt(b) +
                                 "`, and `vocab` does not have both and `" + Json::excerpt(joined) +
                                 "`");
      merges_.set(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right), rank++, id);
    }
  }

  /// Appends a token for each character. Lengths are summed, as tokenizers does, so that a
  /// character without a token has no bytes.
  void append_symbols(std::string_view word, std::vector<WordToken>& out) const {
    std::string spelled;
    std::uint32_t position = 0, unknown_bytes = 0;
    auto add = [&](std::int32_t id, std::size_t bytes) {
      const auto end = position + static_cast<std::uint32_t>(bytes);
      out.push_back({id, position, end});
      position = end;
    };
    auto add_unknown = [&] {
      if (unknown_bytes > 0) add(unknown_id_, unknown_bytes);
      unknown_bytes = 0;
    };
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t bytes = read_utf8(word, at).bytes;
      std::string_view character = word.substr(at, bytes);
      const bool is_first = at == 0, is_last = at + bytes == word.size();
      at += bytes;
      if ((!is_first && !prefix_.empty()) || (is_last && !suffix_.empty())) {
        spelled = (is_first ? "" : prefix_);
        spelled += character;
        if (is_last) spelled += suffix_;
        character = spelled;
      }
      if (const std::int32_t id = vocabulary_.find(character); id >= 0) {
        add_unknown(), add(id, bytes);
        continue;
      }
      if (falls_back_to_bytes_ && append_bytes_of(character, out, position)) continue;
      if (!has_unknown_) continue;
      if (unknown_id_ < 0) no_unknown_token(character, unknown_);
      if (!fuses_unknown_) add_unknown();
      unknown_bytes += static_cast<std::uint32_t>(bytes);
    }
    add_unknown();
  }

  bool append_bytes_of(std::string_view character, std::vector<WordToken>& out,
                       std::uint32_t& position) const {
    const std::size_t before = out.size();
    if (!append_bytes(character, out)) return false;
    for (std::size_t i = before; i < out.size(); ++i)
      out[i].begin = position, out[i].end = ++position;
    return true;
  }

  PairTable merges_;
  std::string unknown_, prefix_, suffix_;
  std::int32_t unknown_id_ = -1;
  bool has_unknown_ = false, fuses_unknown_ = false, falls_back_to_bytes_ = false;
  bool ignores_merges_ = false;
};

inline std::unique_ptr<const Model> make_bpe(ModelFile&& file, Fields& fields) {
  return std::make_unique<const Bpe>(std::move(file), fields);
}

}  // namespace ikebana::detail::tokenizer
