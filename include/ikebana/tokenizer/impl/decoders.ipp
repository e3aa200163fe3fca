#pragma once
#include <ikebana/tokenizer/decoders.hpp>
#include <ikebana/tokenizer/normalizers.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <unordered_map>

namespace ikebana::detail::tokenizer {

inline std::string with_replaced(std::string_view text, std::string_view from,
                                 std::string_view to) {
  std::string out;
  for (std::size_t at; (at = text.find(from)) != text.npos; text.remove_prefix(at + from.size()))
    out.append(text.substr(0, at)).append(to);
  return out.append(text);
}

inline std::string cleaned_up(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> pairs[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : pairs) text = with_replaced(text, from, to);
  return text;
}

/// Appends the bytes of a token whose characters are all GPT-2's for bytes, else the token itself.
inline void append_bytes_of_token(std::string_view token, std::string& out) {
  static const std::vector<int> bytes = [] {
    std::vector<int> by_character(512, -1);
    for (int b = 0; b < 256; ++b)
      by_character[read_utf8(byte_characters()[static_cast<std::size_t>(b)], 0).point] = b;
    return by_character;
  }();
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < token.size();) {
    const auto [c, n] = read_utf8(token, at);
    const int byte = c < bytes.size() ? bytes[c] : -1;
    if (byte < 0) {
      out.resize(before);
      out += token;
      return;
    }
    out += static_cast<char>(static_cast<unsigned char>(byte));
    at += n;
  }
}

/// Returns the byte of a token such as `<0x0A>`, and -1 for others.
inline int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

inline std::string stripped(const DecoderStep& step, std::string_view token) {
  std::size_t begin = 0, end = token.size();
  for (std::size_t i = 0; i < step.start && begin < token.size(); ++i) {
    const auto [c, bytes] = read_utf8(token, begin);
    if (c != step.character) break;
    begin += bytes;
  }
  for (std::size_t i = 0; i < step.stop && end > begin; ++i) {
    const std::size_t last = before_utf8(token, end);
    if (read_utf8(token, last).point != step.character) break;
    end = last;
  }
  return std::string(token.substr(begin, end - begin));
}

inline DecoderChain::DecoderChain(const std::vector<DecoderStep>& steps)
    : steps_(&steps), states_(steps.size()) {
  bool is_fused = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    states_[i].is_fused = is_fused;
    is_fused = is_fused || steps[i].kind == DecoderStep::Kind::Fuse ||
               steps[i].kind == DecoderStep::Kind::ByteLevel;
  }
}

/// Returns true if a step can say nothing before it has the whole of a fused text.
inline bool DecoderChain::holds_all(std::size_t i) const {
  using Kind = DecoderStep::Kind;
  const DecoderStep& step = (*steps_)[i];
  if (!states_[i].is_fused) return false;
  return step.kind == Kind::ByteLevel || step.kind == Kind::ByteFallback ||
         step.kind == Kind::BpeSuffix || (step.kind == Kind::WordPiece && step.flag) ||
         (step.kind == Kind::Replace && !step.is_one_character);
}

inline std::string DecoderChain::changed(const DecoderStep& step, std::string_view token,
                                         std::size_t index) const {
  using Kind = DecoderStep::Kind;
  std::string out;
  if (step.kind == Kind::Replace) {
    std::vector<Match> matches;
    if (!token.empty()) step.pattern->find(token, matches);
    for (const Match& m : matches)
      out += m.is_match ? std::string_view(step.text) : token.substr(m.begin, m.end - m.begin);
  } else if (step.kind == Kind::Strip) {
    return stripped(step, token);
  } else if (step.kind == Kind::Metaspace) {
    for (std::size_t at = 0; at < token.size();) {
      const auto [c, bytes] = read_utf8(token, at);
      if (c != step.character) out += token.substr(at, bytes);
      else if (index > 0 || !step.flag) out += ' ';
      at += bytes;
    }
  } else if (step.kind == Kind::WordPiece) {
    if (index > 0 && token.starts_with(step.text)) token.remove_prefix(step.text.size());
    else if (index > 0) out = " ";
    out += token;
    if (step.flag) out = cleaned_up(std::move(out));
  } else if (step.kind == Kind::JoinBySpaces) {
    if (index > 0) out = " ";
    out += token;
  } else {
    out = token;
  }
  return out;
}

inline void DecoderChain::step(std::size_t i, std::string_view text, std::string& out) {
  using Kind = DecoderStep::Kind;
  if (i == states_.size()) return void(out += text);
  State& state = states_[i];
  const DecoderStep& now = (*steps_)[i];
  const std::size_t index = state.is_fused ? 0 : state.tokens++;
  if (holds_all(i)) return void(state.held += text);
  if (now.kind == Kind::ByteLevel) return byte_level(i, text, out);
  if (now.kind == Kind::ByteFallback) return byte_fallback(i, text, out);
  if (now.kind == Kind::Strip && state.is_fused) return strip_fused(i, text, out);
  if (now.kind == Kind::BpeSuffix) {  // the last token's suffix is no space
    const std::string before = with_replaced(state.held, now.text, " ");
    state.held = text;
    if (index > 0) step(i + 1, before, out);
    return;
  }
  if (now.kind == Kind::Fuse) return step(i + 1, text, out);
  step(i + 1, changed(now, text, index), out);
}

inline void DecoderChain::byte_level(std::size_t i, std::string_view token, std::string& out) {
  std::string& held = states_[i].held;
  append_bytes_of_token(token, held);
  std::size_t whole = 0;
  while (whole < held.size()) {
    const Utf8Step next = utf8_step(std::string_view(held).substr(whole));
    if (next.is_cut_off) break;
    whole += next.bytes;
  }
  const std::string text = with_replacements(std::string_view(held).substr(0, whole));
  held.erase(0, whole);
  if (!text.empty()) step(i + 1, text, out);
}

inline void DecoderChain::byte_fallback(std::size_t i, std::string_view token, std::string& out) {
  if (const int byte = byte_of_token(token); byte >= 0) {
    states_[i].held += static_cast<char>(static_cast<unsigned char>(byte));
    return;
  }
  end_bytes(i, out);
  step(i + 1, token, out);
}

/// Ends a run of bytes: it is a token if all of it is UTF-8, else each byte is U+FFFD.
inline void DecoderChain::end_bytes(std::size_t i, std::string& out) {
  const std::string bytes = std::exchange(states_[i].held, {});
  if (bytes.empty()) return;
  if (first_invalid_utf8(bytes) == bytes.npos) return step(i + 1, bytes, out);
  for (std::size_t n = 0; n < bytes.size(); ++n) step(i + 1, replacement_character, out);
}

inline void DecoderChain::strip_fused(std::size_t i, std::string_view text, std::string& out) {
  State& state = states_[i];
  const DecoderStep& now = (*steps_)[i];
  std::string kept, character;
  append_utf8(character, now.character);
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, bytes] = read_utf8(text, at);
    const std::string_view whole = text.substr(at, bytes);
    at += bytes;
    if (!state.is_past_start && state.count < now.start && c == now.character) {
      ++state.count;
      continue;
    }
    if (!state.is_past_start) state.is_past_start = true, state.count = 0;
    if (c == now.character && state.count < now.stop) {
      ++state.count;
      continue;
    }
    if (c != now.character)
      for (; state.count > 0; --state.count) kept += character;
    kept += whole;
  }
  if (!kept.empty()) step(i + 1, kept, out);
}

inline void DecoderChain::flush(std::size_t i, std::string& out) {
  using Kind = DecoderStep::Kind;
  State& state = states_[i];
  const DecoderStep& now = (*steps_)[i];
  if (holds_all(i)) {
    const std::string whole = std::exchange(state.held, {});
    state.is_fused = false;  // the whole is one token
    step(i, whole, out);
    flush(i, out);
    state.is_fused = true;
  } else if (now.kind == Kind::ByteLevel && !state.held.empty()) {
    step(i + 1, replacement_character, out);
  } else if (now.kind == Kind::ByteFallback) {
    end_bytes(i, out);
  } else if (now.kind == Kind::BpeSuffix && state.tokens > 0) {
    step(i + 1, with_replaced(state.held, now.text, ""), out);
  }
}

inline void DecoderChain::finish(std::string& out) {
  for (std::size_t i = 0; i < states_.size(); ++i) flush(i, out);
  for (State& state : states_) state = {state.is_fused};
}

inline bool read_replace(Fields& fields, DecoderStep& step) {
  step.kind = DecoderStep::Kind::Replace;
  step.pattern = fields.pattern("pattern");
  step.text = fields.string("content");
  for (const auto& [kind, text] : fields.need("pattern").members)
    step.is_one_character = kind == "String" && !text.string.empty() &&
                            read_utf8(text.string, 0).bytes == text.string.size();
  return step.pattern.has_value();
}

inline bool read_decoder_step(Fields& fields, const std::string& type, DecoderStep& step) {
  using Kind = DecoderStep::Kind;
  if (type == "ByteLevel") {
    step.kind = Kind::ByteLevel;
    for (const char* unused : {"add_prefix_space", "trim_offsets", "use_regex"})
      fields.ignore(unused);
  } else if (type == "ByteFallback" || type == "Fuse") {
    step.kind = type == "Fuse" ? Kind::Fuse : Kind::ByteFallback;
  } else if (type == "Replace") {
    return read_replace(fields, step);
  } else if (type == "Strip") {
    step.kind = Kind::Strip;
    step.character = fields.character("content");
    step.start = static_cast<std::size_t>(fields.integer("start"));
    step.stop = static_cast<std::size_t>(fields.integer("stop"));
  } else if (type == "Metaspace") {
    step.kind = Kind::Metaspace;
    step.character = fields.character("replacement");
    const bool never = fields.choice("prepend_scheme", {"always", "first", "never"}, 0) == 2;
    step.flag = !never && fields.boolean("add_prefix_space", true);
    for (const char* unused : {"split", "str_rep", "add_prefix_space"}) fields.ignore(unused);
  } else if (type == "WordPiece") {
    step.kind = Kind::WordPiece;
    step.text = fields.string("prefix");
    step.flag = fields.boolean("cleanup");
  } else if (type == "BPEDecoder") {
    step.kind = Kind::BpeSuffix;
    step.text = fields.string("suffix");
    if (step.text.empty()) fields.refuse("suffix", "is empty");
  } else {
    fields.refuse("", "has the type `" + Json::excerpt(type) + "`, which is not supported");
    return false;
  }
  return true;
}

inline void append_decoder(const JsonValue& value, const std::string& place, Refusals& refusals,
                           std::vector<DecoderStep>& out) {
  Fields fields(value, place, refusals);
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    std::size_t i = 0;
    for (const JsonValue& item : fields.array("decoders"))
      append_decoder(item, fields.place("decoders[" + std::to_string(i++) + "]"), refusals, out);
  } else if (DecoderStep step; read_decoder_step(fields, type, step)) {
    out.push_back(step);
  } else {
    return;
  }
  fields.finish();
}

inline std::vector<DecoderStep> read_decoder(const JsonValue& value, const std::string& place,
                                             Refusals& refusals) {
  std::vector<DecoderStep> out;
  if (value.is_null()) out.push_back({DecoderStep::Kind::JoinBySpaces});
  else append_decoder(value, place, refusals, out);
  return out;
}

}  // namespace ikebana::detail::tokenizer
