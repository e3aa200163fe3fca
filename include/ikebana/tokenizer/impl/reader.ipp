#pragma once
// Reads tokenizer.json into a TokenizerCore.
#include <algorithm>
#include <ikebana/detail/fnv1a.hpp>
#include <ikebana/error.hpp>
#include <ikebana/tokenizer/core.hpp>

namespace ikebana::detail::tokenizer {

class TokenizerReader {
 public:
  TokenizerReader(std::string_view json, std::string name, TokenizerCore& core)
      : text_(json), json_(json, 0), name_(std::move(name)), core_(core) {
    core_.hash_ = fnv1a(fnv1a_start, json);
  }

  void read() {
    try {
      read_file();
    } catch (const Json::ParseError& error) {
      throw BadFile("tokenizer: `" + name_ + "` is no tokenizer.json: " + error.what +
                    ", at byte " + std::to_string(error.offset) + ". Write it again.");
    }
    build();
    if (refusals_.empty()) return;
    std::string all;
    const std::size_t shown = std::min<std::size_t>(refusals_.size(), 20);
    for (std::size_t i = 0; i < shown; ++i) all += (i > 0 ? "; " : "") + refusals_[i];
    if (shown < refusals_.size())
      all += "; and " + std::to_string(refusals_.size() - shown) + " more";
    throw BadFile(
        "tokenizer: `" + name_ + "` cannot be obeyed: " + all +
        ". Change the file, or encode with Hugging Face's tokenizers (docs/tokenizer.md).");
  }

 private:
  void read_file() {
    rest_.kind = JsonValue::Kind::Object;
    json_.object("tokenizer.json", [&](std::string& key) {
      if (key == "model") {
        if (has_model_) json_.fail("`model` is there twice");
        has_model_ = true;
        model_ = read_model_file(json_, text_);
        return;
      }
      for (const auto& member : rest_.members)
        if (member.key == key) json_.fail("`" + Json::excerpt(key) + "` is there twice");
      rest_.members.push_back({key, read_json_value(json_)});
    });
    json_.expect_end("the last brace");
    if (!has_model_) json_.fail("`model` is missing");
  }

  void build() {
    Fields fields(rest_, "tokenizer.json", refusals_);
    if (const std::string version = fields.string("version", "1.0"); version != "1.0")
      fields.refuse("version", "is `" + Json::excerpt(version) + "`; `1.0` is known");
    core_.model_ = make_model(std::move(model_), refusals_);
    core_.normalizer_ = read_normalizer(value(fields, "normalizer"), "normalizer", refusals_);
    core_.pretokenizer_ =
        read_pretokenizer(value(fields, "pre_tokenizer"), "pre_tokenizer", refusals_);
    core_.decoder_ = read_decoder(value(fields, "decoder"), "decoder", refusals_);
    const JsonValue &added = value(fields, "added_tokens"),
                    &post_processor = value(fields, "post_processor"),
                    &truncation = value(fields, "truncation"), &padding = value(fields, "padding");
    fields.finish();
    plan();
    core_.padding_ = read_padding(padding, refusals_);
    if (core_.model_ == nullptr) return;
    read_added_tokens(added);
    const auto text_of = [&](std::int64_t id) -> std::optional<std::string> {
      const auto text = core_.token(id);
      return text ? std::optional<std::string>(*text) : std::nullopt;
    };
    core_.post_processor_ =
        read_post_processor(post_processor, "post_processor", text_of, refusals_);
    core_.truncation_ =
        read_truncation(truncation, core_.post_processor_.added_tokens(), refusals_);
  }

  static const JsonValue& value(Fields& fields, const std::string& name) {
    static const JsonValue none;
    const JsonValue* found = fields.find(name);
    return found == nullptr ? none : *found;
  }

  /// Finds out how the steps work together.
  void plan() {
    using Kind = PretokenizerStep::Kind;
    const auto& steps = core_.pretokenizer_;
    core_.ends_with_byte_level_ = !steps.empty() && steps.back().kind == Kind::ByteLevel;
    bool is_changed = !core_.normalizer_.empty();
    for (const PretokenizerStep& step : steps) {
      const bool needs_origin = step.prepend_scheme == PrependScheme::First;
      core_.needs_spans_ = core_.needs_spans_ || (needs_origin && is_changed);
      is_changed = is_changed || step.kind == Kind::Metaspace || step.kind == Kind::ByteLevel ||
                   step.kind == Kind::PrefixSpace;
    }
  }

  /// Gives added tokens the ids that tokenizers gives them, in the order of the file: ids of the
  /// model, and after them one after another.
  void read_added_tokens(const JsonValue& value) {
    if (!value.is_null() && value.kind != JsonValue::Kind::Array)
      return refusals_.push_back("`added_tokens` should be an array");
    const auto& vocabulary = core_.model_->vocabulary();
    std::int64_t next = static_cast<std::int64_t>(vocabulary.size());
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      Fields fields(value.items[i], "added_tokens[" + std::to_string(i) + "]", refusals_);
      AddedToken token{.content = fields.string("content")};
      const std::int64_t said = fields.integer("id");
      token.single_word = fields.boolean("single_word"), token.lstrip = fields.boolean("lstrip");
      token.rstrip = fields.boolean("rstrip"), token.normalized = fields.boolean("normalized");
      token.special = fields.boolean("special");
      fields.finish();
      const std::int32_t known = vocabulary.find(token.content);
      const std::int64_t id = known >= 0 ? known : next;
      if (token.content.empty()) fields.refuse("content", "is empty");
      else if (core_.added_ids_.contains(token.content))
        fields.refuse("content", "`" + Json::excerpt(token.content) + "` is there twice");
      else if (said != id)
        fields.refuse("id", "is " + std::to_string(said) + ", and tokenizers gives `" +
                                Json::excerpt(token.content) + "` the id " + std::to_string(id));
      else if (core_.added_by_id_.contains(id))
        fields.refuse("id", std::to_string(id) + " is there twice");
      else add_token(std::move(token), id);
      next = std::max(next, id + 1);
    }
    finish_added_tokens();
  }

  void add_token(AddedToken token, std::int64_t id) {
    token.id = static_cast<std::int32_t>(id);
    core_.added_ids_.emplace(token.content, token.id);
    core_.added_by_id_.emplace(id, core_.added_.size());
    core_.added_.push_back(std::move(token));
  }

  void finish_added_tokens() {
    const auto& vocabulary = core_.model_->vocabulary();
    std::int64_t count = static_cast<std::int64_t>(vocabulary.size());
    core_.largest_id_ = vocabulary.end_id() - 1;
    for (const bool is_special : {true, false})  // special ones are sought first
      for (const AddedToken& token : core_.added_)
        if (token.special == is_special) seek(token);
    for (const AddedToken& token : core_.added_) {
      count += vocabulary.find(token.content) < 0;
      core_.largest_id_ = std::max<std::int64_t>(core_.largest_id_, token.id);
    }
    core_.vocab_size_ = count;
    core_.raw_finder_.finish(), core_.normalized_finder_.finish();
    std::sort(core_.added_.begin(), core_.added_.end(),
              [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
    for (std::size_t i = 0; i < core_.added_.size(); ++i)
      core_.added_by_id_[core_.added_[i].id] = i;
  }

  void seek(const AddedToken& token) {
    if (!token.normalized) return core_.raw_finder_.add(token, token.content);
    Pieces pieces;
    pieces.assign(token.content, false);
    for (const NormalizerStep& step : core_.normalizer_) apply(step, pieces);
    std::string content(pieces.text());
    if (content.empty())
      return refusals_.push_back("the added token `" + Json::excerpt(token.content) +
                                 "` is empty when it is normalized");
    core_.normalized_finder_.add(token, std::move(content));
  }

  std::string_view text_;
  Json json_;
  std::string name_;
  TokenizerCore& core_;
  Refusals refusals_;
  JsonValue rest_;
  ModelFile model_;
  bool has_model_ = false;
};

inline TokenizerCore::TokenizerCore(std::string_view json, const std::string& name) {
  TokenizerReader(json, name, *this).read();
}

}  // namespace ikebana::detail::tokenizer
