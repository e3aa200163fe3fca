#pragma once
#include <ikebana/tokenizer/normalizers.hpp>
#include <ikebana/tokenizer/pretokenizers.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

/// Appends the pieces that matches make of a piece. Consecutive matches are merged or not as
/// Hugging Face's tokenizers does it.
inline void cut_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior,
                   std::vector<Piece>& out) {
  auto push = [&](const Match& m) {
    out.push_back({piece.begin + static_cast<std::uint32_t>(m.begin),
                   piece.begin + static_cast<std::uint32_t>(m.end), -1, 0});
  };
  const std::size_t first = out.size();
  bool was_match = false;
  auto join_end = [&](const Match& m, bool joins) {
    if (joins && out.size() > first)
      out.back().end = piece.begin + static_cast<std::uint32_t>(m.end);
    else push(m);
    was_match = m.is_match;
  };
  switch (behavior) {
    case SplitBehavior::Removed:
      for (const Match& m : matches)
        if (!m.is_match) push(m);
      return;
    case SplitBehavior::Isolated:
      for (const Match& m : matches) push(m);
      return;
    case SplitBehavior::Contiguous:
      for (const Match& m : matches) join_end(m, m.is_match == was_match);
      return;
    case SplitBehavior::MergedWithPrevious:
      for (const Match& m : matches) join_end(m, m.is_match && !was_match);
      return;
    case SplitBehavior::MergedWithNext:
      for (auto m = matches.rbegin(); m != matches.rend(); ++m) {
        if (m->is_match && !was_match && out.size() > first)
          out.back().begin = piece.begin + static_cast<std::uint32_t>(m->begin);
        else push(*m);
        was_match = m->is_match;
      }
      std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }
}

/// Finds the characters for which `is` is true; each is a match of its own.
template <class Is>
void find_characters(std::string_view text, Is&& is, std::vector<Match>& out) {
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, bytes] = read_utf8(text, at);
    if (is(c)) {
      if (covered < at) out.push_back({covered, at, false});
      out.push_back({at, at + bytes, true});
      covered = at + bytes;
    }
    at += bytes;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

template <class Is>
void cut_at_characters(Pieces& pieces, SplitBehavior behavior, Is&& is) {
  std::vector<Match> matches;
  pieces.cut([&](const Piece& piece, std::vector<Piece>& out) {
    matches.clear();
    find_characters(pieces.text(piece), is, matches);
    cut_at(piece, matches, behavior, out);
  });
}

inline void apply_split(const PretokenizerStep& step, Pieces& pieces) {
  std::vector<Match> matches;
  pieces.cut([&](const Piece& piece, std::vector<Piece>& out) {
    matches.clear();
    step.pattern->find(pieces.text(piece), matches);
    if (step.is_inverted)
      for (Match& m : matches) m.is_match = !m.is_match;
    cut_at(piece, matches, step.behavior, out);
  });
}

inline void apply_metaspace(const PretokenizerStep& step, Pieces& pieces) {
  pieces.edit([&](const Piece& piece) {
    const std::string_view text = pieces.text(piece);
    const bool begins_with_it = text.starts_with(' ') || text.starts_with(step.text);
    const bool prepends = step.prepend_scheme == PrependScheme::EachPiece ||
                          (step.prepend_scheme == PrependScheme::First && piece.origin == 0);
    if (prepends && !begins_with_it && !text.empty()) pieces.append(step.text, piece.begin);
    for (std::uint32_t at = piece.begin; at < piece.end;) {
      auto end =
          static_cast<std::uint32_t>(std::min<std::size_t>(pieces.text().find(' ', at), piece.end));
      pieces.keep(at, end);
      if (end < piece.end) pieces.append(step.text, end++);
      at = end;
    }
    return true;
  });
  if (step.splits)
    cut_at_characters(pieces, SplitBehavior::MergedWithNext,
                      [&](char32_t c) { return c == step.delimiter; });
}

/// Cuts at whitespace, and where characters of pieces meet others.
inline void apply_whitespace(Pieces& pieces) {
  enum Class { Nothing, Space, Word, Other };
  pieces.cut([&](const Piece& piece, std::vector<Piece>& out) {
    Class last = Nothing;
    for (std::uint32_t at = piece.begin; at < piece.end;) {
      const auto [c, bytes] = read_utf8(pieces.text(), at);
      const auto end = at + static_cast<std::uint32_t>(bytes);
      const Class now = word_characters().has(c) ? Word : is_white_space(c) ? Space : Other;
      if (now != Space && now == last) out.back().end = end;
      else if (now != Space) out.push_back({at, end, -1, 0});
      last = now, at = end;
    }
  });
}

inline void apply(const PretokenizerStep& step, Pieces& pieces) {
  using Kind = PretokenizerStep::Kind;
  switch (step.kind) {
    case Kind::Split:
      return apply_split(step, pieces);
    case Kind::Metaspace:
      return apply_metaspace(step, pieces);
    case Kind::ByteLevel:
      return apply_byte_level(pieces);
    case Kind::PrefixSpace:
      return pieces.edit([&](const Piece& piece) {
        if (pieces.text(piece).starts_with(' ')) return false;
        return prepend(pieces, piece, " "), true;
      });
    case Kind::Digits:
      return cut_at_characters(pieces, step.behavior,
                               [](char32_t c) { return numeric_characters().has(c); });
    case Kind::WhitespaceSplit:
      return cut_at_characters(pieces, step.behavior, is_white_space);
    case Kind::Whitespace:
      return apply_whitespace(pieces);
    case Kind::Delimiter:
      return cut_at_characters(pieces, step.behavior,
                               [&](char32_t c) { return c == step.delimiter; });
    case Kind::Punctuation:
      return cut_at_characters(pieces, step.behavior,
                               [](char32_t c) { return punctuation_characters().has(c); });
  }
}

inline SplitBehavior read_behavior(Fields& fields, std::optional<SplitBehavior> otherwise) {
  std::optional<std::size_t> index;
  if (otherwise) index = static_cast<std::size_t>(*otherwise);
  return static_cast<SplitBehavior>(fields.choice(
      "behavior", {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"},
      index));
}

inline void read_byte_level(Fields& fields, std::vector<PretokenizerStep>& out) {
  using Kind = PretokenizerStep::Kind;
  fields.ignore("trim_offsets");  // only the post-processor reads it
  if (fields.boolean("add_prefix_space")) out.push_back({Kind::PrefixSpace});
  if (fields.boolean("use_regex", true)) {
    static const Regex gpt2(
        to_pcre2(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
    out.push_back({Kind::Split, gpt2});
  }
  out.push_back({Kind::ByteLevel});
}

inline void read_metaspace(Fields& fields, PretokenizerStep& step) {
  step.kind = PretokenizerStep::Kind::Metaspace;
  step.delimiter = fields.character("replacement");
  append_utf8(step.text, step.delimiter);
  step.prepend_scheme =
      static_cast<PrependScheme>(fields.choice("prepend_scheme", {"always", "first", "never"}, 0));
  const bool adds = fields.boolean("add_prefix_space", true);
  if (!adds && fields.find("prepend_scheme") == nullptr) step.prepend_scheme = PrependScheme::Never;
  if (!adds && step.prepend_scheme != PrependScheme::Never)
    fields.refuse("add_prefix_space", "is false, and `prepend_scheme` is not `never`");
  step.splits = fields.boolean("split", true);
  fields.ignore("str_rep");
}

/// Reads a pre-tokenizer that is no Sequence; returns false if the type is not known.
inline bool read_step(Fields& fields, const std::string& type, std::vector<PretokenizerStep>& out) {
  using Kind = PretokenizerStep::Kind;
  if (type == "ByteLevel") {
    read_byte_level(fields, out);
  } else if (type == "Split") {
    PretokenizerStep step{Kind::Split, fields.pattern("pattern"), read_behavior(fields)};
    step.is_inverted = fields.boolean("invert");
    if (step.pattern) out.push_back(step);
  } else if (type == "Digits") {
    const bool each = fields.boolean("individual_digits");
    out.push_back({Kind::Digits, {}, each ? SplitBehavior::Isolated : SplitBehavior::Contiguous});
  } else if (type == "Whitespace") {
    out.push_back({Kind::Whitespace});
  } else if (type == "WhitespaceSplit") {
    out.push_back({Kind::WhitespaceSplit, {}, SplitBehavior::Removed});
  } else if (type == "Punctuation") {
    out.push_back({Kind::Punctuation, {}, read_behavior(fields, SplitBehavior::Isolated)});
  } else if (type == "CharDelimiterSplit") {
    out.push_back({Kind::Delimiter, {}, SplitBehavior::Removed});
    out.back().delimiter = fields.character("delimiter");
  } else if (type == "Metaspace") {
    PretokenizerStep step;
    read_metaspace(fields, step);
    out.push_back(step);
  } else if (type == "BertPreTokenizer") {
    out.push_back({Kind::WhitespaceSplit, {}, SplitBehavior::Removed});
    out.push_back({Kind::Punctuation, {}, SplitBehavior::Isolated});
  } else {
    return false;
  }
  return true;
}

inline std::vector<PretokenizerStep> read_pretokenizer(const JsonValue& value,
                                                       const std::string& place,
                                                       Refusals& refusals) {
  std::vector<PretokenizerStep> out;
  if (value.is_null()) return out;
  Fields fields(value, place, refusals);
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    std::size_t i = 0;
    for (const JsonValue& item : fields.array("pretokenizers")) {
      auto steps = read_pretokenizer(
          item, fields.place("pretokenizers[" + std::to_string(i++) + "]"), refusals);
      out.insert(out.end(), steps.begin(), steps.end());
    }
  } else if (!read_step(fields, type, out)) {
    fields.refuse("", "has the type `" + Json::excerpt(type) + "`, which is not supported");
    return out;
  }
  fields.finish();
  return out;
}

}  // namespace ikebana::detail::tokenizer
