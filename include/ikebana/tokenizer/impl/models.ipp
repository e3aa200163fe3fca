#pragma once
#include <charconv>
#include <cstdlib>
#include <ikebana/error.hpp>
#include <ikebana/tokenizer/models.hpp>

namespace ikebana::detail::tokenizer {

inline void Model::no_unknown_token(std::string_view word, const std::string& token) {
  throw BadValue("tokenizer: the vocabulary has no token for `" + Json::excerpt(word) + "`" +
                 (token.empty() ? ", and the model names no unknown token"
                                : ", and no unknown token `" + Json::excerpt(token) + "` either") +
                 ". Use the tokenizer on text of the kind that it was trained on.");
}

inline bool Model::append_bytes(std::string_view bytes, std::vector<WordToken>& out) const {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const std::size_t before = out.size();
  for (const char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    const char name[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
    const std::int32_t id = vocabulary_.find({name, sizeof name});
    if (id < 0) return out.resize(before), false;
    out.push_back({id, 0, 0});
  }
  return true;
}

/// Returns the double that is nearest to a power of ten, up to 308.
inline double power_of_ten(std::int64_t exponent) {
  const std::string text = "1e" + std::to_string(exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Reads a number as Rust's serde_json does, which tokenizers uses: the digits as one number, then
/// divided by a power of ten. This may be the double next to the nearest one, and sums of scores
/// that are almost equal then compare otherwise.
inline double serde_number(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  std::size_t at = is_negative;
  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool is_full = false;
  auto read = [&](bool is_fraction) {
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      const auto digit = static_cast<std::uint64_t>(text[at] - '0');
      is_full = is_full || digits > (~std::uint64_t{0} - digit) / 10;
      if (!is_full) digits = digits * 10 + digit;
      exponent += (is_full && !is_fraction) - (!is_full && is_fraction);
    }
  };
  read(false);
  if (at < text.size() && text[at] == '.') ++at, read(true);
  if (at < text.size() && (text[at] | 32) == 'e') {
    const bool is_below = text[++at] == '-';
    if (text[at] == '-' || text[at] == '+') ++at;
    std::int64_t value = 0;
    for (; at < text.size() && value < 100000; ++at) value = value * 10 + (text[at] - '0');
    exponent += is_below ? -value : value;
  }
  auto number = static_cast<double>(digits);
  for (; exponent < -308 && number != 0; exponent += 308) number /= 1e308;
  const double power = power_of_ten(std::min<std::int64_t>(std::abs(exponent), 308));
  number = exponent < 0 ? number / power : number * power;
  return is_negative ? -number : number;
}

inline void read_vocabulary(Json& json, std::string_view text, ModelFile& file) {
  if (json.is_next('[')) {
    file.has_scores = true;
    json.array("`vocab`", [&] {
      json.expect('[', "`vocab`");
      std::string token = json.string();
      json.expect(',', "an entry of `vocab`");
      const auto begin = static_cast<std::size_t>(json.offset());
      json.number();
      std::string_view number = text.substr(begin, static_cast<std::size_t>(json.offset()) - begin);
      number.remove_prefix(std::min(number.find_first_not_of(" \t\r\n"), number.size()));
      file.scores.emplace_back(std::move(token), serde_number(number));
      json.expect(']', "an entry of `vocab`");
    });
    return;
  }
  file.has_vocabulary = true;
  json.object("`vocab`", [&](const std::string& token) {
    const std::int64_t id = json.integer();
    if (id >= TokenTable::id_limit)
      json.fail("the id " + std::to_string(id) + " is not below " +
                std::to_string(TokenTable::id_limit));
    if (!file.vocabulary.add(token, static_cast<std::int32_t>(id)))
      json.fail("the token `" + Json::excerpt(token) + "` or its id " + std::to_string(id) +
                " is in `vocab` twice");
  });
}

inline void read_merges(Json& json, ModelFile& file) {
  file.has_merges = true;
  json.array("`merges`", [&] {
    std::string first, second;
    if (json.is_next('[')) {
      json.expect('[', "`merges`");
      first = json.string();
      json.expect(',', "an entry of `merges`");
      second = json.string();
      json.expect(']', "an entry of `merges`");
    } else {
      const std::string both = json.string();
      if (both.starts_with("#version")) return;
      const std::size_t space = both.find(' ');
      if (space == both.npos || both.find(' ', space + 1) != both.npos)
        json.fail("the merge `" + Json::excerpt(both) + "` should have one space");
      first = both.substr(0, space), second = both.substr(space + 1);
    }
    file.merges.emplace_back(std::move(first), std::move(second));
  });
}

inline ModelFile read_model_file(Json& json, std::string_view text) {
  ModelFile file;
  file.settings.kind = JsonValue::Kind::Object;
  json.object("`model`", [&](std::string& key) {
    const bool is_vocabulary = key == "vocab", is_merges = key == "merges";
    const bool is_twice = (is_vocabulary && (file.has_vocabulary || file.has_scores)) ||
                          (is_merges && file.has_merges);
    for (const auto& member : file.settings.members)
      if (is_twice || member.key == key)
        json.fail("`" + Json::excerpt(key) + "` is in `model` twice");
    if (is_vocabulary) read_vocabulary(json, text, file);
    else if (is_merges && !json.skip_if_null()) read_merges(json, file);
    else if (!is_merges) file.settings.members.push_back({key, read_json_value(json)});
  });
  return file;
}

inline std::unique_ptr<const Model> make_model(ModelFile&& file, Refusals& refusals) {
  const JsonValue settings = std::move(file.settings);
  Fields fields(settings, "model", refusals);
  // Files of old versions have no type: BPE is the one with merges.
  std::string type = fields.string("type", file.has_merges ? "BPE" : "");
  std::unique_ptr<const Model> model;
  const std::size_t before = refusals.size();
  if (type != "Unigram" && file.has_scores) fields.refuse("vocab", "should be an object");
  if (type != "Unigram" && !file.has_vocabulary && !file.has_scores)
    fields.refuse("vocab", "is missing");
  if (refusals.size() > before) return nullptr;
  if (type == "BPE") model = make_bpe(std::move(file), fields);
  else if (type == "WordPiece") model = make_word_piece(std::move(file), fields);
  else if (type == "Unigram") model = make_unigram(std::move(file), fields);
  else if (type == "WordLevel") model = make_word_level(std::move(file), fields);
  else
    return fields.refuse("type", "is `" + Json::excerpt(type) +
                                     "`; `BPE`, `WordPiece`, `Unigram` or `WordLevel` are known"),
           nullptr;
  fields.finish();
  return model;
}

}  // namespace ikebana::detail::tokenizer
