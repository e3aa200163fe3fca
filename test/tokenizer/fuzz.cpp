// Mutated tokenizer.json files are refused, or make tokenizers that work; mutated texts are encoded
// and decoded. IKEBANA_TOKENIZER_FUZZ sets how many, for a run by hand under the sanitizers.
#include "json.hpp"

using namespace ikebana;

namespace test::tokenizer::fuzz {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::size_t operator()(std::size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state_ >> 33) % n;
  }

 private:
  std::uint64_t state_;
};

void set_steps(Parts& parts) {
  parts.normalizer =
      R"({"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Nmt"},)"
      R"({"type":"StripAccents"},)"
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
      R"("strip_accents":null,"lowercase":true},{"type":"Strip","strip_left":true,)"
      R"("strip_right":true},{"type":"Replace","pattern":{"Regex":"a+|$"},"content":"a"},)"
      R"({"type":"Prepend","prepend":"_"}]})";
  parts.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
      R"("(?i:'s|[a-z]{2,3}+)|[^\\s\\p{L}]?\\p{L}+|\\s+(?!\\S)|\\w\\b"},"behavior":"Isolated",)"
      R"("invert":true},{"type":"Digits","individual_digits":true},{"type":"Punctuation",)"
      R"("behavior":"Contiguous"},{"type":"Metaspace","replacement":"\u2581",)"
      R"("prepend_scheme":"first","split":true},{"type":"Whitespace"}]})";
  parts.truncation = R"({"direction":"Left","max_length":9,"strategy":"OnlyFirst","stride":1})";
  parts.padding = R"({"strategy":{"Fixed":3},"direction":"Left","pad_to_multiple_of":4,"pad_id":0,)"
                  R"("pad_type_id":0,"pad_token":""})";
}

const std::vector<std::string>& files() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out{json(byte_level(some_merges()))};
    const std::string vocab =
        vocabulary({"<unk>", "a", "b", "ab", "##b", "\u2581a", "<0xC3>", " "});
    Parts parts{.model = R"("type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,)"
                         R"("continuing_subword_prefix":"##","end_of_word_suffix":"b",)"
                         R"("ignore_merges":true,"merges":[["a","##b"]],)" +
                         vocab};
    set_steps(parts);
    parts.post_processor =
        R"({"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":true,)"
        R"("trim_offsets":true,"use_regex":true},{"type":"TemplateProcessing","single":[)"
        R"({"SpecialToken":{"id":"a","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],)"
        R"("special_tokens":{"a":{"id":"a","ids":[1],"tokens":["a"]}}}]})";
    parts.decoder =
        R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)"
        R"("content":" "},{"type":"ByteFallback"},{"type":"Metaspace","replacement":"a",)"
        R"("prepend_scheme":"always","split":true},)"
        R"({"type":"WordPiece","prefix":"##","cleanup":true},)"
        R"({"type":"BPEDecoder","suffix":"b"},{"type":"Fuse"},{"type":"Strip","content":" ",)"
        R"("start":1,"stop":2},{"type":"ByteLevel"}]})";
    parts.added_tokens = "[" + added(8, "<s>", "special lstrip rstrip") + "," +
                         added(9, "x", "normalized single_word") + "]";
    out.push_back(json(parts));
    parts.model = R"("type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["<unk>",0.0],)"
                  R"(["a",-1.5],["ab",-2e0],["\u2581a",-3],["<0xC3>",-4]])";
    parts.added_tokens = "[]", parts.decoder = "null";
    out.push_back(json(parts));
    parts.model = R"("type":"WordPiece","unk_token":"<unk>","continuing_subword_prefix":"##",)"
                  R"("max_input_chars_per_word":9,)" +
                  vocab;
    parts.pre_tokenizer = R"({"type":"BertPreTokenizer"})";
    out.push_back(json(parts));
    return out;
  }();
  return all;
}

const char* const fragments[] = {"null",
                                 "true",
                                 "0",
                                 "-1",
                                 "1e99",
                                 "\"\"",
                                 "[]",
                                 "{}",
                                 "\"a\"",
                                 "{",
                                 "}",
                                 "[",
                                 "]",
                                 ",",
                                 ":",
                                 "\"",
                                 "\\\\p{L}",
                                 "\\\\s+",
                                 "(?!",
                                 "(?i:",
                                 "{1,3}",
                                 "+",
                                 "$",
                                 "[^",
                                 "\\u0000",
                                 "\\ud83d\\ude00",
                                 "\u00e9",
                                 "\"type\":\"Sequence\"",
                                 "\"type\":\"ByteLevel\"",
                                 "\"Regex\"",
                                 "4294967295",
                                 "9999999",
                                 "Removed"};

std::string mutated(std::string text, Random& random, std::size_t changes) {
  for (; changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random(text.size()), n = 1 + random(1 + random(20));
    switch (random(5)) {
      case 0:
        text[at] = static_cast<char>(random(256));
        break;
      case 1:
        text.erase(at, n);
        break;
      case 2:
        text.insert(at, fragments[random(std::size(fragments))]);
        break;
      case 3:
        text.insert(random(text.size()), text.substr(at, n));
        break;
      default:
        text.replace(at, n, fragments[random(std::size(fragments))]);
    }
  }
  return text;
}

std::string random_text(Random& random) {
  const char* parts[] = {"a",      "b",  "ab", " ",      "  ",       "\n",     "<s>",
                         "x",      "'s", "12", "\u00e9", "e\u0301",  "\u4e2d", "\U0001f600",
                         "\u2581", "_",  ".",  "\xff",   "\xe6\x97", "\u0345"};
  std::string out;
  for (std::size_t n = random(40); n > 0; --n) out += parts[random(std::size(parts))];
  return out;
}

/// Uses a tokenizer; returns false if a text could not be encoded, which an error said.
bool use(const Tokenizer& tokenizer, Random& random) {
  const std::string text = random_text(random);
  try {
    const Ids ids = tokenizer.encode(text, {.invalid_utf8 = InvalidUtf8::Replace});
    const std::string whole = ikebana::detail::tokenizer::with_replacements(text);
    CHECK(tokenizer.encode_with_offsets(whole).ids == ids);
    for (const auto& [begin, end] : tokenizer.encode_with_offsets(whole).offsets)
      CHECK((begin <= end && end <= whole.size()));
    std::string streamed;
    StreamingDecoder decoder(tokenizer);
    for (const std::int32_t id : ids) streamed += decoder.step(id);
    CHECK(tokenizer.decode(ids) == streamed + decoder.finish());
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST_CASE("tokenizer fuzz: a changed file is refused, or makes a tokenizer that works") {
  const char* asked = std::getenv("IKEBANA_TOKENIZER_FUZZ");
  const int rounds = asked != nullptr ? std::atoi(asked) : 300;
  int refused = 0, used = 0;
  for (int round = 0; round < rounds; ++round) {
    Random random(static_cast<std::uint64_t>(round) * 977 + 1);
    const std::string& file = files()[random(files().size())];
    const std::string text = mutated(file, random, random(4));
    try {
      const Tokenizer tokenizer = Tokenizer::from_str(text);
      for (int i = 0; i < 5; ++i) used += use(tokenizer, random);
    } catch (const BadFile& error) {
      ++refused;
      const std::string_view what = error.what();
      CHECK(ikebana::detail::tokenizer::first_invalid_utf8(what) == what.npos);
    }
  }
  CHECK(refused > rounds / 10);
  CHECK(used > rounds / 2);
}

}  // namespace test::tokenizer::fuzz
