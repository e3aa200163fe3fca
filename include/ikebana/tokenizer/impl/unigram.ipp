#pragma once
// Unigram: the cut of a piece whose tokens have the largest sum of scores, by Viterbi's algorithm.
// Source: Kudo 2018 (arXiv 1804.10959), and the order of additions and comparisons of tokenizers.
#include <ikebana/tokenizer/models.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <limits>

namespace ikebana::detail::tokenizer {

class Unigram : public Model {
 public:
  Unigram(ModelFile&& file, Fields& fields)
      : falls_back_to_bytes_(fields.boolean("byte_fallback", false)) {
    if (file.has_merges) fields.refuse("merges", "is not known for Unigram");
    if (!file.has_scores) fields.refuse("vocab", "should be an array of pairs");
    if (file.scores.size() >= static_cast<std::size_t>(TokenTable::id_limit)) {
      fields.refuse("vocab", "has too many tokens");
      return;
    }
    const JsonValue* unknown = fields.find("unk_id");
    if (unknown != nullptr && !unknown->is_null()) unknown_ = fields.integer("unk_id");
    if (unknown_ >= static_cast<std::int64_t>(file.scores.size()))
      fields.refuse("unk_id", "is not in `vocab`");
    vocabulary_.reserve(file.scores.size());
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [token, score] : file.scores) {
      const auto id = static_cast<std::int32_t>(scores_.size());
      if (!vocabulary_.add(token, id)) {
        fields.refuse("vocab", "has `" + Json::excerpt(token) + "` twice");
        return;
      }
      scores_.push_back(score);
      least = std::min(least, score);
      add_to_tree(token, id);
    }
    unknown_score_ = least - 10.0;
  }

  void tokenize(std::string_view word, std::vector<WordToken>& out) const override {
    std::vector<Best> best(word.size() + 1);
    for (std::size_t at = 0; at < word.size(); at += read_utf8(word, at).bytes)
      extend(word, at, best);
    std::vector<WordToken> parts;  // from the end to the beginning; unknown ones next to each other
    bool was_unknown = false;      // are one
    for (std::size_t end = word.size(); end > 0;) {
      const Best& b = best[end];
      const bool is_unknown = unknown_ >= 0 && b.id == unknown_;
      if (is_unknown && was_unknown) parts.back().begin = static_cast<std::uint32_t>(b.begin);
      else
        parts.push_back(
            {b.id, static_cast<std::uint32_t>(b.begin), static_cast<std::uint32_t>(end)});
      was_unknown = is_unknown;
      end = static_cast<std::size_t>(b.begin);
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) append(word, *part, out);
  }

 private:
  struct Best {
    double score = 0;
    std::int64_t begin = -1;
    std::int32_t id = 0;
  };

  void add_to_tree(std::string_view token, std::int32_t id) {
    std::uint32_t node = 0;
    for (const char c : token) {
      const auto byte = static_cast<unsigned char>(c);
      const auto* child = children_.find(node, byte);
      if (child == nullptr) {
        tokens_.push_back(-1);
        const auto made = static_cast<std::int32_t>(tokens_.size() - 1);
        children_.set(node, byte, 0, made);
        node = static_cast<std::uint32_t>(made);
      } else {
        node = static_cast<std::uint32_t>(child->id);
      }
    }
    tokens_[node] = id;
  }

  void extend(std::string_view word, std::size_t at, std::vector<Best>& best) const {
    const double here = best[at].score;
    const std::size_t character = read_utf8(word, at).bytes;
    auto offer = [&](std::size_t end, double score, std::int32_t id) {
      Best& target = best[end];
      if (target.begin >= 0 && !(score > target.score)) return;
      target = {score, static_cast<std::int64_t>(at), id};
    };
    bool has_character = false;
    std::uint32_t node = 0;
    for (std::size_t end = at; end < word.size();) {
      const auto* child = children_.find(node, static_cast<unsigned char>(word[end++]));
      if (child == nullptr) break;
      node = static_cast<std::uint32_t>(child->id);
      if (tokens_[node] < 0) continue;
      offer(end, scores_[static_cast<std::size_t>(tokens_[node])] + here, tokens_[node]);
      has_character = has_character || end == at + character;
    }
    if (has_character) return;
    const Best& target = best[at + character];
    if (unknown_ < 0 && (target.begin < 0 || unknown_score_ + here > target.score))
      no_unknown_token(word.substr(at, character), "");
    offer(at + character, unknown_score_ + here, static_cast<std::int32_t>(unknown_));
  }

  void append(std::string_view word, const WordToken& part, std::vector<WordToken>& out) const {
    const std::string_view text = word.substr(part.begin, part.end - part.begin);
    const std::int32_t id = vocabulary_.find(text);
    const std::size_t before = out.size();
    if (id < 0 && falls_back_to_bytes_ && append_bytes(text, out)) {
      for (std::size_t i = before; i < out.size(); ++i)
        out[i].begin = part.begin, out[i].end = part.end;
      return;
    }
    out.push_back({id < 0 ? static_cast<std::int32_t>(unknown_) : id, part.begin, part.end});
  }

  std::vector<double> scores_;
  std::vector<std::int32_t> tokens_{-1};  // by node of the tree of all tokens' bytes
  PairTable children_;
  std::int64_t unknown_ = -1;
  double unknown_score_ = 0;
  bool falls_back_to_bytes_ = false;
};

inline std::unique_ptr<const Model> make_unigram(ModelFile&& file, Fields& fields) {
  return std::make_unique<const Unigram>(std::move(file), fields);
}

}  // namespace ikebana::detail::tokenizer
