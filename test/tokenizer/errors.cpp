// A tokenizer.json is obeyed or refused by name; texts that cannot be encoded and ids that cannot
// be decoded are errors.
#include "json.hpp"

#include <filesystem>

using namespace ikebana;

namespace test::tokenizer::errors {

std::string refusal(const Parts& parts) {
  return message_of<BadFile>([&] { made(parts); });
}
std::string refusal_of(const std::string& text) {
  return message_of<BadFile>([&] { Tokenizer::from_str(text); });
}

TEST_CASE("tokenizer errors: one error names all that is not supported") {
  const std::string message = refusal(
      {.model = R"("type":"BPE","dropout":0.1,"merges":[],"vocab":{"a":0},"new":1)",
       .normalizer = R"({"type":"Sequence","normalizers":[{"type":"Precompiled"},{"type":"NFC"}]})",
       .pre_tokenizer = R"({"type":"UnicodeScripts"})",
       .decoder = R"({"type":"CTC"})",
       .truncation = R"({"max_length":2,"strategy":"OnlySecond","stride":0})"});
  for (const char* part :
       {"tokenizer: `the given text` cannot be obeyed: ",
        "`model.dropout` is not 0 or null, so that each encoding would be another one",
        "`model.new` is not known here",
        "`normalizer.normalizers[0]` has the type `Precompiled`, which is not supported",
        "`pre_tokenizer` has the type `UnicodeScripts`, which is not supported",
        "`decoder` has the type `CTC`, which is not supported",
        "`truncation.strategy` is `OnlySecond`, and texts are encoded one by one",
        "Change the file, or encode with Hugging Face's tokenizers (docs/tokenizer.md)."})
    CHECK_MESSAGE(contains(message, part), message);
}

TEST_CASE("tokenizer errors: fields of another kind, missing ones and unknown choices") {
  auto check = [](const Parts& parts, const char* part) {
    const std::string message = refusal(parts);
    CHECK_MESSAGE(contains(message, part), part << " is not in: " << message);
  };
  check({.normalizer = "[]"}, "`normalizer` should be an object");
  check({.normalizer = R"({"type":"Strip","strip_left":1,"strip_right":true})"},
        "`normalizer.strip_left` should be true or false");
  check({.normalizer = R"({"type":"Prepend"})"}, "`normalizer.prepend` is missing");
  check({.pre_tokenizer = R"({"type":"Digits"})"}, "`pre_tokenizer.individual_digits` is missing");
  check({.pre_tokenizer = R"({"type":"Sequence","pretokenizers":{}})"},
        "`pre_tokenizer.pretokenizers` should be an array");
  check({.pre_tokenizer = R"({"type":"Punctuation","behavior":"Kept"})"},
        "`pre_tokenizer.behavior` is `Kept`; `Removed`, `Isolated`, `MergedWithPrevious`, "
        "`MergedWithNext` or `Contiguous` are known");
  check({.pre_tokenizer = R"({"type":"CharDelimiterSplit","delimiter":"ab"})"},
        "`pre_tokenizer.delimiter` should be one character");
  check({.pre_tokenizer = R"({"type":"Metaspace","replacement":"_","add_prefix_space":false,)"
                          R"("prepend_scheme":"always"})"},
        "`pre_tokenizer.add_prefix_space` is false, and `prepend_scheme` is not `never`");
  check({.decoder = R"({"type":"BPEDecoder","suffix":""})"}, "`decoder.suffix` is empty");
  check({.decoder = R"({"type":"Strip","content":" ","start":-1,"stop":0})"},
        "`decoder.start` should be a whole number from 0 to 2147483647");
  check({.decoder = R"({"type":"Replace","pattern":{},"content":""})"},
        "`decoder.pattern` should have either `String` or `Regex`");
  check({.post_processor = R"({"type":"Other"})"},
        "`post_processor` has the type `Other`, which is not supported");
}

TEST_CASE("tokenizer errors: models") {
  auto check = [](const std::string& model, const char* part) {
    const std::string message = refusal({.model = model});
    CHECK_MESSAGE(contains(message, part), part << " is not in: " << message);
  };
  check(R"("type":"GPT","vocab":{})",
        "`model.type` is `GPT`; `BPE`, `WordPiece`, `Unigram` or "
        "`WordLevel` are known");
  check(R"("type":"BPE","merges":[])", "`model.vocab` is missing");
  check(R"("type":"BPE","vocab":[],"merges":[])", "`model.vocab` should be an object");
  check(R"("type":"BPE","vocab":{"a":0})", "`model.merges` is missing");
  check(R"("type":"BPE","vocab":{"a":0},"merges":["a b"])",
        "`model.merges[0]` merges `a` and `b`, and `vocab` does not have both and `ab`");
  check(R"("type":"BPE","vocab":{"a":0},"merges":["ab"])",
        "the merge `ab` should have one space, at byte");
  check(R"("type":"BPE","vocab":{"a":0,"b":0},"merges":[])",
        "the token `b` or its id 0 is in `vocab` twice, at byte");
  check(R"("type":"BPE","vocab":{"a":16777216},"merges":[])",
        "the id 16777216 is not below 16777216");
  check(R"("type":"BPE","type":"BPE")", "`type` is in `model` twice");
  check(R"("type":"WordPiece","unk_token":"?","continuing_subword_prefix":"##",)"
        R"("max_input_chars_per_word":9,"vocab":{},"merges":[])",
        "`model.merges` is not known for WordPiece");
  check(R"("type":"WordLevel","unk_token":"?","vocab":{},"merges":[])",
        "`model.merges` is not known for WordLevel");
  check(R"("type":"Unigram","vocab":{},"merges":[])", "`model.merges` is not known for Unigram");
  check(R"("type":"Unigram","vocab":{})", "`model.vocab` should be an array of pairs");
  check(R"("type":"Unigram","unk_id":1,"vocab":[["a",0]])", "`model.unk_id` is not in `vocab`");
  check(R"("type":"Unigram","vocab":[["a",0],["a",1]])", "`model.vocab` has `a` twice");
}

void check(const Parts& parts, const char* part) {
  const std::string message = refusal(parts);
  CHECK_MESSAGE(contains(message, part), part << " is not in: " << message);
}

TEST_CASE("tokenizer errors: added tokens") {
  check({.added_tokens = "{}"}, "`added_tokens` should be an array");
  check({.added_tokens = "[" + added(7, "x") + "]"},
        "`added_tokens[0].id` is 7, and tokenizers gives `x` the id 3");
  check({.added_tokens = "[" + added(3, "x") + "," + added(3, "x") + "]"},
        "`added_tokens[1].content` `x` is there twice");
  check({.added_tokens = "[" + added(3, "") + "]"}, "`added_tokens[0].content` is empty");
  check({.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":true})",
         .added_tokens = "[" + added(3, " ", "normalized") + "]"},
        "the added token ` ` is empty when it is normalized");
}

TEST_CASE("tokenizer errors: templates") {
  const std::string end = R"(,"pair":[],"special_tokens":{}})";
  check({.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a",)"
                           R"("type_id":0}}])" +
                           end},
        "`post_processor.single` has the token `a`, which `special_tokens` does not have");
  check({.post_processor = R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"B",)"
                           R"("type_id":0}}])" +
                           end},
        "`post_processor.single.Sequence.id` should be `A` for one text");
  check({.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a",)"
                           R"("type_id":0}}],"pair":[],"special_tokens":{"a":{"id":"a",)"
                           R"("ids":[1,2],"tokens":["a"]}}})"},
        "`post_processor.special_tokens.a.ids` should be as many as `tokens`");
  check({.post_processor = R"({"type":"BertProcessing","sep":["a",9],"cls":["b",1]})"},
        "`post_processor.sep` has the id 9, which is no token");
  check({.post_processor = R"({"type":"BertProcessing","sep":["a",1],"cls":["b",1]})"},
        "`post_processor.cls` names the token `b` with the id 1, which is `a`");
  check({.post_processor = R"({"type":"BertProcessing","sep":["a"],"cls":["b",2]})"},
        "`post_processor.sep` should be a token and its id");
  const std::string bert = R"({"type":"BertProcessing","sep":["a",1],"cls":["b",2]})";
  check({.post_processor = R"({"type":"Sequence","processors":[)" + bert + "," + bert + "]}"},
        "`post_processor.processors[1]` is the second post-processor that adds tokens");
}

TEST_CASE("tokenizer errors: truncation and padding") {
  const std::string bert = R"({"type":"BertProcessing","sep":["a",1],"cls":["b",2]})";
  check({.post_processor = bert,
         .truncation = R"({"max_length":1,"strategy":"LongestFirst","stride":0})"},
        "`truncation.max_length` is less than the 2 tokens that the post-processor adds");
  check({.truncation = R"({"max_length":4,"strategy":"LongestFirst","stride":4})"},
        "`truncation.stride` is not less than what `max_length` leaves to the text");
  const std::string rest = R"(,"direction":"Left","pad_id":0,"pad_type_id":0,"pad_token":""})";
  check({.padding = R"({"strategy":"Longest")" + rest},
        "`padding.strategy` should be `BatchLongest` or an object with `Fixed`");
  check({.padding = R"({"strategy":{"Fixed":99999999})" + rest},
        "`padding.strategy.Fixed` is more than 2^24");
  check({.padding = R"({"strategy":"BatchLongest","pad_to_multiple_of":99999999)" + rest},
        "`padding.pad_to_multiple_of` is more than 2^24");
}

TEST_CASE("tokenizer errors: regular expressions that would mean something else") {
  const std::pair<const char*, const char*> cases[] = {
      {"a(?<n>b)", "its regular expression has `(?<` at its byte 1, which is not supported"},
      {"(a)\\1", "`\\1` at its byte 3"},
      {"\\R", "`\\R`"},
      {"\\X", "`\\X`"},
      {"a**", "a quantifier of a quantifier"},
      {"a{2}+*", "a quantifier of a quantifier"},
      {"a{2}?", "`{n}?`"},
      {"(*F)", "`(*`"},
      {"(a", "a group that is not closed"},
      {"a)", "a `)` without `(`"},
      {"[a", "a class that does not end"},
      {"[]a]", "`[]`"},
      {"[a[b]]", "`[` in a class"},
      {"[a&&b]", "`&&`"},
      {"[\\P{L}a]", "a negated set in a class"},
      {"[\\b]", "`\\b` in a class"},
      {"[a-\\s]", "a range that ends with a set"},
      {"\\p{Greek}", "`\\p{Greek}`"},
      {"\\pL", "`\\p` without a name in braces"},
      {"(?i:\\p{Lu})", "`\\p` within `(?i`"},
      {"(?i:\u00e9)", "a character outside of ASCII within `(?i`"},
      {"(?i:ss)", "`ss` within `(?i`"},
      {"(?i:[^a])", "`[^` within `(?i`"},
      {"\\xff", "`\\x` that names no character"},
      {"a\\", "`\\` at"},
      {"(?<=a+)b", "PCRE2 refuses it: lookbehind assertion is not fixed length"}};
  for (const auto& [pattern, part] : cases) {
    const std::string message =
        refusal({.pre_tokenizer = R"({"type":"Split","pattern":{"Regex":)" + as_json(pattern) +
                                  R"(},"behavior":"Isolated","invert":false})"});
    CHECK_MESSAGE(contains(message, "`pre_tokenizer.pattern` cannot be used: "), message);
    CHECK_MESSAGE(contains(message, part), part << " is not in: " << message);
  }
}

TEST_CASE("tokenizer errors: damaged files name the byte") {
  const std::string whole = json({});
  CHECK(contains(refusal_of(whole.substr(0, 40)),
                 "tokenizer: `the given text` is no tokenizer.json: "));
  CHECK(contains(refusal_of("{}"), "`model` is missing, at byte 2. Write it again."));
  CHECK(contains(refusal_of(whole + "x"), "something follows the last brace"));
  CHECK(contains(refusal_of(replaced(whole, "\"model\"", "\"decoder\"")),
                 "`decoder` is there twice"));
  CHECK(contains(refusal_of(replaced(whole, "\"version\"", "\"model\":{},\"version\"")),
                 "`model` is there twice"));
  CHECK(contains(refusal_of(replaced(whole, "\"1.0\"", "\"2.0\"")),
                 "`tokenizer.json.version` is `2.0`; `1.0` is known"));
  CHECK(
      contains(refusal_of(replaced(whole, "\"1.0\"", std::string(40, '[') + std::string(40, ']'))),
               "values are nested more than 32 deep"));
  CHECK(contains(refusal_of(replaced(whole, "\"a\"", "\"\\ud800\"")), "half of a surrogate pair"));
  CHECK(Tokenizer::from_str(replaced(whole, "\"a\"", "\"\\ud83d\\ude00\"")).encode("\U0001f600") ==
        Ids{1});
  CHECK_FALSE(
      message_of<FileFailed>([] { Tokenizer::from_file("/nowhere/tokenizer.json"); }).empty());
}

TEST_CASE("tokenizer errors: texts and ids") {
  const Tokenizer tokenizer = made(byte_level());
  const std::string bad = "a\xff\xe6\x97";
  CHECK(message_of<BadValue>([&] { tokenizer.encode(bad); }) ==
        "encode: the text is not UTF-8: its byte 1 is 0xff. Convert it, or set .invalid_utf8 = "
        "InvalidUtf8::Replace.");
  const EncodeOptions replace{.invalid_utf8 = InvalidUtf8::Replace};
  CHECK(tokenizer.encode(bad, replace) == tokenizer.encode("a\ufffd\ufffd"));
  CHECK(
      contains(message_of<BadValue>([&] { tokenizer.encode_with_offsets(bad, replace); }),
               "encode_with_offsets: the text is not UTF-8, and offsets of a text whose bytes are "
               "replaced would be those of another text. Replace them first."));
  CHECK(contains(message_of<BadValue>([&] { tokenizer.encode_batch({"a", "b", bad, bad}); }),
                 "encode_batch: text 2: encode: the text is not UTF-8: its byte 1 is 0xff"));
  CHECK(contains(message_of<BadValue>([&] { tokenizer.encode_batch({"a"}, {.num_threads = -1}); }),
                 "encode_batch: num_threads is -1. Set the number of threads, or 0 for as many as "
                 "the processor has."));
  for (const std::int32_t id : {-1, 257, 2147483647})
    CHECK(message_of<BadValue>([&] { tokenizer.decode({65, id}); }) ==
          "decode: " + std::to_string(id) +
              " is the id of no token; the largest is 256. Decode ids "
              "of the tokenizer that encoded them.");
  CHECK(
      contains(message_of<BadValue>([&] { tokenizer.decode(at::tensor({std::int64_t{1} << 40})); }),
               "decode: 1099511627776 is the id of no token; the largest is 256."));
  for (const at::Tensor& ids : {at::Tensor(), at::zeros({1, 2}, at::kLong), at::zeros({2})})
    CHECK(contains(message_of<BadValue>([&] { tokenizer.decode(ids); }),
                   "decode: the ids should be a tensor of integers with one dimension. Decode the "
                   "rows of a batch one by one."));
  const Tokenizer words = made({.model = R"("type":"WordLevel","unk_token":"?","vocab":{"a":0})"});
  CHECK(message_of<BadValue>([&] { words.encode("b"); }) ==
        "tokenizer: the vocabulary has no token for `b`, and no unknown token `?` either. Use the "
        "tokenizer on text of the kind that it was trained on.");
  const Tokenizer unigram = made({.model = R"("type":"Unigram","vocab":[["a",0]])"});
  CHECK(contains(message_of<BadValue>([&] { unigram.encode("b"); }),
                 "the vocabulary has no token for `b`, and the model names no unknown token"));
}

}  // namespace test::tokenizer::errors
