#pragma once
#include <ikebana/error.hpp>
#include <ikebana/tokenizer/core.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

/// RAII: a workspace that is in use.
class WorkspaceInUse {
 public:
  explicit WorkspaceInUse(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
  ~WorkspaceInUse() { pool_.put_back(std::move(workspace_)); }
  WorkspaceInUse(const WorkspaceInUse&) = delete;
  WorkspaceInUse& operator=(const WorkspaceInUse&) = delete;
  EncodeWorkspace& operator*() const { return *workspace_; }

 private:
  WorkspacePool& pool_;
  std::unique_ptr<EncodeWorkspace> workspace_;
};

inline void TokenizerCore::cut(std::string_view text, Pieces& pieces, bool wants_offsets) const {
  pieces.assign(text, wants_offsets || needs_spans_);
  raw_finder_.cut(pieces);
  for (const NormalizerStep& step : normalizer_) apply(step, pieces);
  normalized_finder_.cut(pieces);
  for (const PretokenizerStep& step : pretokenizer_) {
    // Pieces are sought in the cache by their bytes, and spelled in GPT-2's characters if need be.
    const bool is_last = &step == &pretokenizer_.back();
    if (is_last && ends_with_byte_level_ && !wants_offsets) break;
    apply(step, pieces);
  }
}

inline void TokenizerCore::append_ids(EncodeWorkspace& workspace,
                                      std::vector<std::int32_t>& ids) const {
  const auto& characters = byte_characters();
  const Pieces& pieces = workspace.pieces;
  for (const Piece& piece : pieces.pieces()) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
      continue;
    }
    const std::string_view word = pieces.text(piece);
    if (workspace.cache.find(word, ids)) continue;
    std::string_view spelled = word;
    if (ends_with_byte_level_) {
      workspace.spelled.clear();
      for (const char c : word) workspace.spelled += characters[static_cast<unsigned char>(c)];
      spelled = workspace.spelled;
    }
    workspace.tokens.clear();
    model_->tokenize(spelled, workspace.tokens);
    const std::size_t before = ids.size();
    for (const WordToken& token : workspace.tokens) ids.push_back(token.id);
    workspace.cache.add(word, ids.data() + before, ids.size() - before);
  }
}

/// Moves the offsets of a token behind its leading spaces and before its trailing ones, which are
/// counted in characters of the token's text. Source: `process_offsets` of tokenizers.
inline void trim(std::string_view text, std::string_view token, bool is_first, bool adds_space,
                 std::pair<std::size_t, std::size_t>& offsets) {
  auto is_space = [](char32_t c) { return c == 0x120 || is_white_space(c); };
  std::size_t leading = 0, trailing = 0;
  for (std::size_t at = 0; at < token.size() && is_space(read_utf8(token, at).point); ++leading)
    at += read_utf8(token, at).bytes;
  for (std::size_t end = token.size(); end > 0; ++trailing) {
    end = before_utf8(token, end);
    if (!is_space(read_utf8(token, end).point)) break;
  }
  if ((is_first || offsets.first == 0) && adds_space && leading == 1) leading = 0;
  for (; leading > 0 && offsets.first < offsets.second; --leading)
    offsets.first += read_utf8(text, offsets.first).bytes;
  std::size_t end = offsets.second;
  for (; trailing > 0 && end > 0; --trailing) end = before_utf8(text, end);
  if (trailing == 0) offsets.second = std::max(end, offsets.first);
}

inline void TokenizerCore::append_with_offsets(EncodeWorkspace& workspace, std::string_view text,
                                               Encoding& out) const {
  const Pieces& pieces = workspace.pieces;
  for (const Piece& piece : pieces.pieces()) {
    auto& tokens = workspace.tokens;
    tokens.clear();
    if (piece.token >= 0) tokens.push_back({piece.token, 0, piece.end - piece.begin});
    else model_->tokenize(pieces.text(piece), tokens);
    for (const WordToken& token : tokens) {
      Span span{token.begin, token.end};  // kept if the model gave bytes that are not in the piece
      if (token.begin < token.end && piece.begin + token.end <= piece.end)
        span = pieces.span(piece.begin + token.begin, piece.begin + token.end);
      std::pair<std::size_t, std::size_t> offsets{span.begin, span.end};
      const std::string_view spelled =
          piece.token >= 0 ? pieces.text(piece) : model_->vocabulary().text(token.id);
      for (const bool adds_space : post_processor_.trims)
        trim(text, spelled, out.ids.empty(), adds_space, offsets);
      out.ids.push_back(token.id);
      out.offsets.push_back(offsets);
    }
  }
}

inline Encoding TokenizerCore::tokens_of(std::string_view text, bool wants_offsets) const {
  const WorkspaceInUse workspace(pool_);
  Encoding out;
  cut(text, (*workspace).pieces, wants_offsets);
  if (wants_offsets) append_with_offsets(*workspace, text, out);
  else append_ids(*workspace, out.ids);
  return out;
}

template <class Vector>
void truncate(Vector& values, std::size_t most, bool keeps_end) {
  if (values.size() <= most) return;
  if (keeps_end) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(most));
  values.resize(most);
}

inline void TokenizerCore::finish(Encoding& encoding, bool adds_special, bool truncates) const {
  const bool has_offsets = !encoding.offsets.empty() || encoding.ids.empty();
  if (truncation_ && truncates) {
    const std::size_t added = adds_special ? post_processor_.added_tokens() : 0;
    truncate(encoding.ids, truncation_->max_length - added, truncation_->keeps_end);
    if (has_offsets)
      truncate(encoding.offsets, truncation_->max_length - added, truncation_->keeps_end);
  }
  const auto& parts = post_processor_.parts;
  if (!post_processor_.has_template || (!adds_special && parts.size() == 3 && parts[1].is_text &&
                                        !parts[0].is_text && !parts[2].is_text))
    return;
  Encoding out;
  for (const TemplatePart& part : parts) {
    if (!part.is_text && !adds_special) continue;
    const auto& ids = part.is_text ? encoding.ids : part.ids;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    if (!has_offsets) continue;
    if (part.is_text)
      out.offsets.insert(out.offsets.end(), encoding.offsets.begin(), encoding.offsets.end());
    else out.offsets.resize(out.ids.size());
  }
  encoding = std::move(out);
}

inline std::size_t TokenizerCore::padded_length(std::size_t longest) const {
  std::size_t length = padding_->is_fixed ? padding_->fixed : longest;
  if (padding_->multiple > 0)
    length += (padding_->multiple - length % padding_->multiple) % padding_->multiple;
  return length;
}

template <class Vector>
void pad_to(Vector& values, std::size_t length, bool is_left, typename Vector::value_type value) {
  if (values.size() >= length) return;
  values.insert(is_left ? values.begin() : values.end(), length - values.size(), value);
}

inline void TokenizerCore::pad(std::vector<Encoding>& encodings, bool wants_offsets) const {
  if (!padding_) return;
  std::size_t longest = 0;
  for (const Encoding& e : encodings) longest = std::max(longest, e.ids.size());
  for (Encoding& e : encodings) {
    pad_to(e.ids, padded_length(longest), padding_->is_left, padding_->id);
    if (wants_offsets) pad_to(e.offsets, e.ids.size(), padding_->is_left, {0, 0});
  }
}

inline std::optional<std::string_view> TokenizerCore::token(std::int64_t id,
                                                            bool* is_special) const {
  if (is_special != nullptr) *is_special = false;
  const auto added = added_by_id_.find(id);
  if (added != added_by_id_.end()) {
    if (is_special != nullptr) *is_special = added_[added->second].special;
    return added_[added->second].content;
  }
  if (!model_->vocabulary().has_id(id)) return {};
  return model_->vocabulary().text(static_cast<std::int32_t>(id));
}

inline std::int32_t TokenizerCore::id_of(std::string_view token) const {
  const auto added = added_ids_.find(std::string(token));
  return added != added_ids_.end() ? added->second : model_->vocabulary().find(token);
}

}  // namespace ikebana::detail::tokenizer
