#pragma once
#include <ikebana/tokenizer/post_processors.hpp>
#include <numeric>
#include <optional>

namespace ikebana::detail::tokenizer {

inline std::size_t PostProcessor::added_tokens() const {
  return std::accumulate(
      parts.begin(), parts.end(), std::size_t{0},
      [](std::size_t n, const TemplatePart& part) { return n + part.ids.size(); });
}

/// Reads post-processors; `Tokens` is a function from an id to an optional text.
template <class Tokens>
class PostProcessorReader {
 public:
  PostProcessorReader(const Tokens& tokens, Refusals& refusals)
      : tokens_(tokens), refusals_(refusals) {}

  void read(const JsonValue& value, const std::string& place, PostProcessor& out) {
    if (value.is_null()) return;
    Fields fields(value, place, refusals_);
    const std::string type = fields.string("type");
    if (type == "Sequence") {
      std::size_t i = 0;
      for (const JsonValue& item : fields.array("processors"))
        read(item, fields.place("processors[" + std::to_string(i++) + "]"), out);
    } else if (type == "ByteLevel") {
      const bool adds_space = fields.boolean("add_prefix_space");
      if (fields.boolean("trim_offsets")) out.trims.push_back(adds_space);
      fields.ignore("use_regex");
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      read_pair(fields, type == "RobertaProcessing", out);
    } else if (type == "TemplateProcessing") {
      read_template(fields, out);
    } else {
      fields.refuse("", "has the type `" + Json::excerpt(type) + "`, which is not supported");
      return;
    }
    fields.finish();
  }

 private:
  void begin_template(Fields& fields, PostProcessor& out) {
    if (out.has_template) fields.refuse("", "is the second post-processor that adds tokens");
    out.has_template = true;
    out.parts.clear();
  }

  /// Checks that a token has the id that the file says.
  void check(Fields& fields, const std::string& field, const std::string& text, std::int64_t id) {
    const std::optional<std::string> known = tokens_(id);
    if (!known) fields.refuse(field, "has the id " + std::to_string(id) + ", which is no token");
    else if (*known != text)
      fields.refuse(field, "names the token `" + Json::excerpt(text) + "` with the id " +
                               std::to_string(id) + ", which is `" + Json::excerpt(*known) + "`");
  }

  void read_pair(Fields& fields, bool is_roberta, PostProcessor& out) {
    begin_template(fields, out);
    auto token = [&](const std::string& name) {
      const auto& pair = fields.array(name);
      if (pair.size() != 2 || pair[0].kind != JsonValue::Kind::String) {
        fields.refuse(name, "should be a token and its id");
        return std::int32_t{0};
      }
      const std::int64_t id = fields.integer(pair[1], name);
      check(fields, name, pair[0].string, id);
      return static_cast<std::int32_t>(id);
    };
    const std::int32_t sep = token("sep"), cls = token("cls");
    out.parts = {{false, {cls}}, {true, {}}, {false, {sep}}};
    if (!is_roberta) return;
    const bool adds_space = fields.boolean("add_prefix_space");
    if (fields.boolean("trim_offsets")) out.trims.push_back(adds_space);
  }

  void read_template(Fields& fields, PostProcessor& out) {
    begin_template(fields, out);
    fields.ignore("pair");  // texts are encoded one by one here
    const JsonValue& tokens = fields.need("special_tokens");
    for (const JsonValue& item : fields.array("single")) {
      Fields piece(item, fields.place("single"), refusals_);
      if (const JsonValue* text = piece.find("Sequence")) {
        Fields inner(*text, piece.place("Sequence"), refusals_);
        if (inner.string("id") != "A") inner.refuse("id", "should be `A` for one text");
        inner.ignore("type_id"), inner.finish();
        out.parts.push_back({true, {}});
      } else {
        Fields inner(piece.need("SpecialToken"), piece.place("SpecialToken"), refusals_);
        out.parts.push_back({false, special_token(fields, tokens, inner.string("id"))});
        inner.ignore("type_id"), inner.finish();
      }
      piece.finish();
    }
  }

  std::vector<std::int32_t> special_token(Fields& fields, const JsonValue& tokens,
                                          const std::string& name) {
    std::vector<std::int32_t> out;
    for (const auto& [key, value] : tokens.members) {
      if (key != name) continue;
      Fields token(value, fields.place("special_tokens." + Json::excerpt(key)), refusals_);
      const auto &ids = token.array("ids"), &texts = token.array("tokens");
      if (ids.size() != texts.size()) token.refuse("ids", "should be as many as `tokens`");
      for (std::size_t i = 0; i < ids.size() && i < texts.size(); ++i) {
        const std::int64_t id = token.integer(ids[i], "ids");
        check(token, "ids", texts[i].string, id);
        out.push_back(static_cast<std::int32_t>(id));
      }
      token.ignore("id"), token.finish();
      return out;
    }
    fields.refuse("single", "has the token `" + Json::excerpt(name) +
                                "`, which `special_tokens` does not have");
    return out;
  }

  const Tokens& tokens_;
  Refusals& refusals_;
};

template <class Tokens>
PostProcessor read_post_processor(const JsonValue& value, const std::string& place,
                                  const Tokens& tokens, Refusals& refusals) {
  PostProcessor out;
  PostProcessorReader<Tokens>(tokens, refusals).read(value, place, out);
  return out;
}

inline std::optional<Truncation> read_truncation(const JsonValue& value, std::size_t added_tokens,
                                                 Refusals& refusals) {
  if (value.is_null()) return {};
  Fields fields(value, "truncation", refusals);
  Truncation out;
  out.keeps_end = fields.choice("direction", {"Left", "Right"}, 1) == 0;
  out.max_length = static_cast<std::size_t>(fields.integer("max_length"));
  const auto strategy = fields.choice("strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"});
  if (strategy == 2) fields.refuse("strategy", "is `OnlySecond`, and texts are encoded one by one");
  const auto stride = static_cast<std::size_t>(fields.integer("stride"));
  fields.finish();
  if (out.max_length < added_tokens)
    fields.refuse("max_length", "is less than the " + std::to_string(added_tokens) +
                                    " tokens that the post-processor adds");
  else if (stride > 0 && stride >= out.max_length - added_tokens)
    fields.refuse("stride", "is not less than what `max_length` leaves to the text");
  return out;
}

inline std::optional<Padding> read_padding(const JsonValue& value, Refusals& refusals) {
  if (value.is_null()) return {};
  Fields fields(value, "padding", refusals);
  Padding out;
  const JsonValue& strategy = fields.need("strategy");
  if (strategy.kind == JsonValue::Kind::Object) {
    Fields inner(strategy, fields.place("strategy"), refusals);
    out.is_fixed = true;
    out.fixed = static_cast<std::size_t>(inner.integer("Fixed"));
    if (out.fixed > (std::size_t{1} << 24)) inner.refuse("Fixed", "is more than 2^24");
    inner.finish();
  } else if (strategy.string != "BatchLongest") {
    fields.refuse("strategy", "should be `BatchLongest` or an object with `Fixed`");
  }
  out.is_left = fields.choice("direction", {"Left", "Right"}) == 0;
  const JsonValue* multiple = fields.find("pad_to_multiple_of");
  if (multiple != nullptr && !multiple->is_null())
    out.multiple = static_cast<std::size_t>(fields.integer("pad_to_multiple_of"));
  if (out.multiple > (std::size_t{1} << 24))
    fields.refuse("pad_to_multiple_of", "is more than 2^24");
  out.id = static_cast<std::int32_t>(fields.integer("pad_id"));
  fields.ignore("pad_type_id"), fields.ignore("pad_token");
  fields.finish();
  return out;
}

}  // namespace ikebana::detail::tokenizer
