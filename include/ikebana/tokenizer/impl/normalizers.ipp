#pragma once
#include <ikebana/tokenizer/normalizers.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <map>

namespace ikebana::detail::tokenizer {

inline const std::vector<std::string>& byte_characters() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out(256);
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
      const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      append_utf8(out[b], prints ? b : next++);
    }
    return out;
  }();
  return all;
}

inline void apply_byte_level(Pieces& pieces) {
  const auto& characters = byte_characters();
  pieces.edit([&](const Piece& piece) {
    for (std::uint32_t at = piece.begin; at < piece.end; ++at)
      pieces.append(characters[static_cast<unsigned char>(pieces.text()[at])], at);
    return true;
  });
}

inline void replace_matches(Pieces& pieces, const Regex& pattern, const std::string& content) {
  std::vector<Match> matches;
  pieces.edit([&](const Piece& piece) {
    matches.clear();
    pattern.find(pieces.text(piece), matches);
    for (const Match& m : matches) {
      const auto begin = piece.begin + static_cast<std::uint32_t>(m.begin);
      const auto end = piece.begin + static_cast<std::uint32_t>(m.end);
      if (!m.is_match) pieces.keep(begin, end);
      else if (!content.empty()) pieces.append(content, end > piece.begin ? end - 1 : end);
    }
    return true;
  });
}

inline bool is_nmt_removed(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f ||
         c == 0x9f;
}
inline char32_t nmt_character(char32_t c) {
  const bool is_space = c == 9 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
                        (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xfeff || c == 0xfffd;
  return is_space ? U' ' : c;
}

/// Keeps the characters for which `map` returns one, not `removed_character`.
inline constexpr char32_t removed_character = 0x110000;
template <class Map>
void map_characters(Pieces& pieces, Map&& map) {
  std::vector<Change> changes;
  pieces.edit([&](const Piece& piece) {
    changes.clear();
    std::size_t removed = 0;
    for (std::size_t at = piece.begin; at < piece.end;) {
      const auto [c, bytes] = read_utf8(pieces.text(), at);
      at += bytes;
      if (const char32_t to = map(c); to != removed_character) changes.push_back({to, 0});
      else if (changes.empty()) ++removed;
      else --changes.back().change;
    }
    pieces.change(piece, changes, removed);
    return true;
  });
}

inline void apply_lowercase(Pieces& pieces) {
  std::vector<Change> changes;
  std::u32string lower;
  pieces.edit([&](const Piece& piece) {
    changes.clear();
    for (std::size_t at = piece.begin; at < piece.end;) {
      const auto [c, bytes] = read_utf8(pieces.text(), at);
      at += bytes;
      lower.clear();
      append_lower(lower, c);
      for (std::size_t i = 0; i < lower.size(); ++i) changes.push_back({lower[i], i > 0});
    }
    pieces.change(piece, changes, 0);
    return true;
  });
}

inline void apply_normal_form(Pieces& pieces, NormalForm form) {
  pieces.edit([&](const Piece& piece) {
    bool is_ascii = true;
    for (const char c : pieces.text(piece)) is_ascii = is_ascii && static_cast<signed char>(c) >= 0;
    if (is_ascii) return false;
    pieces.change(piece, normalized(pieces.text(piece), form), 0);
    return true;
  });
}

inline void apply_chinese(Pieces& pieces) {
  std::vector<Change> changes;
  pieces.edit([&](const Piece& piece) {
    changes.clear();
    for (std::size_t at = piece.begin; at < piece.end;) {
      const auto [c, bytes] = read_utf8(pieces.text(), at);
      at += bytes;
      if (is_chinese(c)) changes.insert(changes.end(), {{U' ', 0}, {c, 1}, {U' ', 1}});
      else changes.push_back({c, 0});
    }
    pieces.change(piece, changes, 0);
    return true;
  });
}

inline void apply_strip(Pieces& pieces, bool left, bool right) {
  pieces.edit([&](const Piece& piece) {
    std::uint32_t begin = piece.begin, end = piece.end;
    while (left && begin < end && is_white_space(read_utf8(pieces.text(), begin).point))
      begin += static_cast<std::uint32_t>(read_utf8(pieces.text(), begin).bytes);
    while (right && begin < end) {
      const auto last = static_cast<std::uint32_t>(before_utf8(pieces.text(), end));
      if (!is_white_space(read_utf8(pieces.text(), last).point)) break;
      end = last;
    }
    pieces.keep(begin, end);
    return true;
  });
}

inline void apply_prepend(Pieces& pieces, const std::string& text) {
  pieces.edit([&](const Piece& piece) {
    if (piece.begin == piece.end) return false;
    return prepend(pieces, piece, text), true;
  });
}

inline void apply(const NormalizerStep& step, Pieces& pieces) {
  using Kind = NormalizerStep::Kind;
  const auto removed_if = [](bool is, char32_t c) { return is ? removed_character : c; };
  switch (step.kind) {
    case Kind::NFC:
      return apply_normal_form(pieces, NormalForm::NFC);
    case Kind::NFD:
      return apply_normal_form(pieces, NormalForm::NFD);
    case Kind::NFKC:
      return apply_normal_form(pieces, NormalForm::NFKC);
    case Kind::NFKD:
      return apply_normal_form(pieces, NormalForm::NFKD);
    case Kind::Lowercase:
      return apply_lowercase(pieces);
    case Kind::Strip:
      return apply_strip(pieces, step.strips_left, step.strips_right);
    case Kind::Replace:
      return replace_matches(pieces, *step.pattern, step.text);
    case Kind::ByteLevel:
      return apply_byte_level(pieces);
    case Kind::ChineseCharacters:
      return apply_chinese(pieces);
    case Kind::Prepend:
      return apply_prepend(pieces, step.text);
    case Kind::StripAccents:
      return map_characters(pieces,
                            [&](char32_t c) { return removed_if(combining_marks().has(c), c); });
    case Kind::StripMarks:
      return map_characters(pieces,
                            [&](char32_t c) { return removed_if(nonspacing_marks().has(c), c); });
    case Kind::Nmt:
      return map_characters(
          pieces, [&](char32_t c) { return removed_if(is_nmt_removed(c), nmt_character(c)); });
    case Kind::CleanText:
      return map_characters(pieces, [&](char32_t c) {
        return removed_if(cleaned_characters().has(c), is_white_space(c) ? U' ' : c);
      });
  }
}

inline void read_bert_normalizer(Fields& fields, std::vector<NormalizerStep>& out) {
  using Kind = NormalizerStep::Kind;
  if (fields.boolean("clean_text")) out.push_back({Kind::CleanText});
  if (fields.boolean("handle_chinese_chars")) out.push_back({Kind::ChineseCharacters});
  const bool lowers = fields.boolean("lowercase");
  if (fields.boolean("strip_accents", lowers))
    out.push_back({Kind::NFD}), out.push_back({Kind::StripMarks});
  if (lowers) out.push_back({Kind::Lowercase});
}

/// Returns the normalizer of a name, if it has no fields.
inline std::optional<NormalizerStep::Kind> normalizer_without_fields(const std::string& name) {
  using Kind = NormalizerStep::Kind;
  static const std::map<std::string, Kind> all{{"NFC", Kind::NFC},
                                               {"NFD", Kind::NFD},
                                               {"NFKC", Kind::NFKC},
                                               {"NFKD", Kind::NFKD},
                                               {"Nmt", Kind::Nmt},
                                               {"Lowercase", Kind::Lowercase},
                                               {"StripAccents", Kind::StripAccents},
                                               {"ByteLevel", Kind::ByteLevel}};
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

inline std::vector<NormalizerStep> read_normalizer(const JsonValue& value, const std::string& place,
                                                   Refusals& refusals) {
  using Kind = NormalizerStep::Kind;
  std::vector<NormalizerStep> out;
  if (value.is_null()) return out;
  Fields fields(value, place, refusals);
  const std::string type = fields.string("type");
  if (const auto kind = normalizer_without_fields(type)) out.push_back({*kind});
  if (type == "Sequence") {
    std::size_t i = 0;
    for (const JsonValue& item : fields.array("normalizers")) {
      auto steps =
          read_normalizer(item, fields.place("normalizers[" + std::to_string(i++) + "]"), refusals);
      out.insert(out.end(), steps.begin(), steps.end());
    }
  } else if (type == "BertNormalizer") {
    read_bert_normalizer(fields, out);
  } else if (type == "Strip") {
    const bool left = fields.boolean("strip_left"), right = fields.boolean("strip_right");
    out.push_back({Kind::Strip, left, right});
  } else if (type == "Replace") {
    NormalizerStep step{Kind::Replace, false, false, fields.pattern("pattern")};
    step.text = fields.string("content");
    if (step.pattern) out.push_back(step);
  } else if (type == "Prepend") {
    out.push_back({Kind::Prepend, false, false, {}, fields.string("prepend")});
  } else if (out.empty()) {
    fields.refuse("", "has the type `" + Json::excerpt(type) + "`, which is not supported");
    return out;
  }
  fields.finish();
  return out;
}

}  // namespace ikebana::detail::tokenizer
