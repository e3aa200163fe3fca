// Tokenizers of each kind, by hand; oracle.py compares them with Python's on much text.
#include "json.hpp"

#include <thread>

using namespace ikebana;

namespace test::tokenizer::kinds {

TEST_CASE("tokenizer: byte-pair encoding merges the lowest rank first, the leftmost of equals") {
  const Tokenizer tokenizer = made(byte_level(some_merges()));
  CHECK(tokenizer.encode("the other") == Ids{257, ' ', 'o', 257, 'r'});
  CHECK(tokenizer.encode(" the in") == Ids{258, ' ', 259});
  CHECK(tokenizer.encode("").empty());
  const std::string nul("\0a", 2);
  CHECK(tokenizer.encode(nul) == Ids{0, 'a'});
  CHECK(tokenizer.decode(tokenizer.encode(nul)) == nul);
  const Tokenizer pairs = made(byte_level({{"a", "a"}, {"aa", "a"}}));
  CHECK(pairs.encode("aaaa") == Ids{256, 256});
  CHECK(pairs.encode("aaaaa") == Ids{256, 257});
  CHECK(pairs.vocab_size() == 259);
  CHECK(pairs.largest_id() == 258);
  CHECK(pairs.token_to_id("<|endoftext|>") == 258);
  CHECK(pairs.token_to_id("aaa") == 257);
  CHECK_FALSE(pairs.token_to_id("b c").has_value());
  CHECK(pairs.id_to_token(258) == "<|endoftext|>");
  CHECK_FALSE(pairs.id_to_token(259).has_value());
  CHECK_FALSE(pairs.id_to_token(-1).has_value());
  REQUIRE(pairs.get_added_tokens().size() == 1);
  CHECK(pairs.get_added_tokens()[0].special);
}

TEST_CASE(
    "tokenizer: a word of a megabyte is no quadratic work, and short and long words merge alike") {
  const Tokenizer tokenizer = made(byte_level({{"a", "b"}, {"ab", "a"}, {"b", "a"}, {"ab", "ab"}}));
  std::string word;
  for (std::uint32_t i = 0, state = 1; i < 1u << 20; ++i)
    state = state * 1664525u + 1013904223u, word += state >> 31 ? 'a' : 'b';
  const Ids ids = tokenizer.encode(word);
  CHECK(tokenizer.decode(ids) == word);
  // No merge reaches over `bb`, so the parts between them have the same tokens as words.
  Ids apart;
  for (std::size_t begin = 0, end; begin < word.size(); begin = end) {
    end = word.find("bb", begin);
    end = end == word.npos ? word.size() : end + 1;
    for (const std::int32_t id : tokenizer.encode(word.substr(begin, end - begin)))
      apart.push_back(id);
  }
  CHECK(apart == ids);
}

TEST_CASE("tokenizer: unknown characters become the unknown token, bytes, or nothing") {
  const std::string vocab = vocabulary({"<unk>", "a", "b", "ab", "<0xC3>", "<0xA9>"});
  auto bpe = [&](const std::string& settings) {
    return made({.model = R"("type":"BPE","merges":["a b"],)" + settings + vocab});
  };
  CHECK(bpe("").encode("xabyyb") == Ids{3, 2});
  CHECK(bpe(R"("unk_token":"<unk>",)").encode("xabyyb") == Ids{0, 3, 0, 0, 2});
  CHECK(bpe(R"("unk_token":"<unk>","fuse_unk":true,)").encode("xabyyb") == Ids{0, 3, 0, 2});
  const Tokenizer bytes = bpe(R"("unk_token":"<unk>","byte_fallback":true,)");
  CHECK(bytes.encode("a\u00e9\u00e8") == Ids{1, 4, 5, 0});
  const Encoding encoding = bytes.encode_with_offsets("a\u00e9\u00e8");
  using Offsets = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(encoding.offsets == Offsets{{0, 1}, {1, 3}, {1, 3}, {3, 5}});
}

TEST_CASE("tokenizer: WordPiece, WordLevel and Unigram") {
  const Tokenizer pieces =
      made({.model = R"("type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
                     R"("max_input_chars_per_word":5,)" +
                     vocabulary({"[UNK]", "un", "##aff", "##able", "##a", "a"}),
            .pre_tokenizer = R"({"type":"WhitespaceSplit"})",
            .decoder = R"({"type":"WordPiece","prefix":"##","cleanup":true})"});
  CHECK(pieces.encode("unaff una uno unaffable") == Ids{1, 2, 1, 4, 0, 0});
  CHECK(pieces.decode({1, 2, 5, 4}) == "unaff aa");
  const Tokenizer words = made({.pre_tokenizer = R"({"type":"WhitespaceSplit"})"});
  CHECK(words.encode("b a  c") == Ids{2, 1, 0});
  CHECK(words.decode({2, 1, 0}) == "b a ?");
  const Tokenizer unigram =
      made({.model = R"("type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1],["b",-1.5],)"
                     R"(["ab",-2],["abc",-9],["c",-4]])"});
  CHECK(unigram.encode("abc") == Ids{3, 5});
  CHECK(unigram.encode("xxa") == Ids{0, 1});  // unknown ones next to each other are one
}

TEST_CASE("tokenizer: scores are read as serde_json reads them, not as the nearest double") {
  using ikebana::detail::tokenizer::serde_number;
  CHECK(serde_number("-18.4577069853362352") == -0x1.2752c48f52b7ep+4);  // the nearest is ...7d
  CHECK(serde_number("0") == 0);
  CHECK(serde_number("-1.5") == -1.5);
  CHECK(serde_number("25e-1") == 2.5);
  CHECK(serde_number("2.5E+3") == 2500);
  CHECK(serde_number("123456789012345678901234567890") == 12345678901234567890e10);
  CHECK(serde_number("1e-400") == 0);
  CHECK(serde_number("0.00000000000000000000000001") == 1 / 1e26);
}

TEST_CASE("tokenizer: added tokens are found first, the longest, with their spaces") {
  Parts parts = byte_level();
  parts.added_tokens = "[" + added(256, "<x>", "special lstrip") + "," + added(257, "<x>y") + "," +
                       added(258, "<r>", "rstrip") + "," + added(259, "one", "single_word") + "]";
  const Tokenizer tokenizer = made(parts);
  CHECK(tokenizer.encode("a  <x>b") == Ids{'a', 256, 'b'});
  CHECK(tokenizer.encode("a <x>y") == Ids{'a', ' ', 257});
  CHECK(tokenizer.encode("<r> \n a<r>") == Ids{258, 'a', 258});
  CHECK(tokenizer.encode("one bone") == Ids{259, ' ', 'b', 'o', 'n', 'e'});
  CHECK(tokenizer.decode({256, 'a', 257}) == "a<x>y");
  CHECK(tokenizer.decode({256, 'a'}, {.skip_special_tokens = false}) == "<x>a");
}

TEST_CASE("tokenizer: special tokens of post-processors, truncation and padding") {
  Parts parts{.pre_tokenizer = R"({"type":"WhitespaceSplit"})"};
  parts.model =
      R"("type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2,"<s>":3,"</s>":4})";
  parts.post_processor = R"({"type":"BertProcessing","sep":["</s>",4],"cls":["<s>",3]})";
  Tokenizer tokenizer = made(parts);
  CHECK(tokenizer.encode("a b") == Ids{3, 1, 2, 4});
  CHECK(tokenizer.encode("a b", {.add_special_tokens = false}) == Ids{1, 2});
  CHECK(tokenizer.encode("") == Ids{3, 4});
  parts.truncation = R"({"direction":"Right","max_length":3,"strategy":"LongestFirst","stride":0})";
  parts.padding = R"({"strategy":"BatchLongest","direction":"Left","pad_to_multiple_of":null,)"
                  R"("pad_id":0,"pad_type_id":0,"pad_token":"?"})";
  tokenizer = made(parts);
  CHECK(tokenizer.truncates());
  CHECK(tokenizer.pads());
  CHECK(tokenizer.encode("b a") == Ids{3, 2, 4});
  CHECK(tokenizer.encode("a b a b", {.add_special_tokens = false}) == Ids{1, 2, 1});
  const std::vector<std::string> texts{"a b a", ""};
  CHECK(tokenizer.encode_batch(texts) == std::vector<Ids>{{3, 1, 4}, {0, 3, 4}});
  const auto hash = tokenizer.hash();
  CHECK(hash == made(parts).hash());
  tokenizer.no_truncation();
  CHECK(tokenizer.hash() != hash);
  CHECK(tokenizer.encode_batch(texts) == std::vector<Ids>{{3, 1, 2, 1, 4}, {0, 0, 0, 3, 4}});
  tokenizer.no_padding();
  CHECK(tokenizer.encode_batch(texts) == std::vector<Ids>{{3, 1, 2, 1, 4}, {3, 4}});
}

TEST_CASE("tokenizer: tensors, and many threads at once") {
  const Tokenizer tokenizer = made(byte_level(some_merges()));
  const at::Tensor ids = tokenizer.encode_tensor("the in");
  CHECK(same_bits(ids, at::tensor(std::vector<std::int64_t>{257, ' ', 259})));
  CHECK(tokenizer.decode(ids.to(at::kInt)) == "the in");
  CHECK(tokenizer.decode(at::empty({0}, at::kLong)).empty());
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) texts.push_back("the other " + std::to_string(i) + " in\u00e9");
  const auto all = tokenizer.encode_batch(texts, {.num_threads = 4});
  for (std::size_t i = 0; i < texts.size(); ++i) REQUIRE(all[i] == tokenizer.encode(texts[i]));
}

TEST_CASE("tokenizer: a stream gives whole characters, and the text of decode") {
  const std::string text = "na\u00efve \u65e5\u672c \U0001f600";
  const Tokenizer tokenizer = made(byte_level());
  Ids ids = tokenizer.encode(text);
  ids.push_back(0xe6);  // the beginning of a character
  StreamingDecoder decoder(tokenizer);
  std::string all;
  for (const std::int32_t id : ids) {
    const std::string part = decoder.step(id);
    CHECK(ikebana::detail::tokenizer::first_invalid_utf8(part) == part.npos);
    all += part;
  }
  CHECK(all == text);
  CHECK(decoder.finish() == "\ufffd");
  CHECK(tokenizer.decode(ids) == text + "\ufffd");
  CHECK(decoder.step('a') == "a");  // a new text
  CHECK(decoder.finish().empty());
}

TEST_CASE("tokenizer: streams of decoders that know their text late") {
  Parts parts{.model = R"("type":"WordLevel","unk_token":"?",)" +
                       vocabulary({"?", "<0xE2>", "<0x82>", "<0xAC>", "\u2581a", " b ", "c</w>"})};
  auto parts_of = [&](const std::string& decoder, const Ids& ids) {
    parts.decoder = decoder;
    const Tokenizer tokenizer = made(parts);
    StreamingDecoder stream(tokenizer);
    std::vector<std::string> out;
    std::string all;
    for (const std::int32_t id : ids) out.push_back(stream.step(id)), all += out.back();
    out.push_back(stream.finish());
    CHECK(all + out.back() == tokenizer.decode(ids));
    return out;
  };
  using Texts = std::vector<std::string>;
  const std::string llama =
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},)"
      R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},)"
      R"({"type":"Strip","content":" ","start":1,"stop":1}]})";
  CHECK(parts_of(llama, {4, 1, 2, 3, 4}) == Texts{"a", "", "", "", "\u20ac a", ""});
  CHECK(parts_of(llama, {4, 1, 2, 4}) == Texts{"a", "", "", "\ufffd\ufffd a", ""});
  CHECK(parts_of(llama, {5, 5}) == Texts{"b", "  b", ""});
  CHECK(parts_of(R"({"type":"BPEDecoder","suffix":"</w>"})", {6, 6}) == Texts{"", "c ", "c"});
  CHECK(parts_of(R"({"type":"BPEDecoder","suffix":"</w>"})", {}) == Texts{""});
  CHECK(parts_of(R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always"})",
                 {4, 4}) == Texts{"a", " a", ""});
  CHECK(parts_of(R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace",)"
                 R"("pattern":{"Regex":"a.b"},"content":"x"}]})",
                 {4, 5}) == Texts{"", "", "\u2581x "});
}

}  // namespace test::tokenizer::kinds
