// Files of tokens: their integers, what is between documents, and that a file in parts has the
// tokens of the whole.
#include "json.hpp"

#include <filesystem>
#include <fstream>

using namespace ikebana;
namespace fs = std::filesystem;

namespace test::tokenizer::files {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ikebana_tokens_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
    return path / name;
  }
  template <class Integer>
  Ids read(const std::string& name) const {
    std::ifstream file(path / name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    REQUIRE(bytes.size() % sizeof(Integer) == 0);
    Ids out;
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(Integer)) {
      Integer value = 0;
      std::memcpy(&value, bytes.data() + i, sizeof value);
      out.push_back(static_cast<std::int32_t>(value));
    }
    return out;
  }
};

std::string long_text() {
  std::string text;
  std::uint32_t state = 7;
  auto draw = [&](std::uint32_t n) {
    return state = state * 1664525u + 1013904223u, (state >> 8) % n;
  };
  const char* words[] = {"the",          " other",        " a",    "\n",    "\n\n", "  ",
                         "in",           " caf\u00e9",    "12345", "don't", ".",    "\U0001f600",
                         "\u65e5\u672c", "<|endoftext|>", "\t"};
  while (text.size() < 60000) text += words[draw(std::size(words))];
  return text;
}

TEST_CASE("write_tokens: nanoGPT's file, with a token after each document") {
  const Folder folder;
  const Tokenizer tokenizer = made(byte_level(some_merges()));
  const std::vector<fs::path> texts{folder.write("a", "the"), folder.write("b", ""),
                                    folder.write("c", " the")};
  const WrittenTokens written = write_tokens(tokenizer, texts, folder.path / "out.bin");
  const std::int32_t end = *tokenizer.token_to_id("<|endoftext|>");
  CHECK(folder.read<std::uint16_t>("out.bin") == Ids{257, end, end, 258, end});
  CHECK(written.tokens == 5);
  CHECK(written.documents == 3);
  CHECK(written.dtype == TokenType::UInt16);
  write_tokens(tokenizer, texts, folder.path / "out.bin",
               {.end_of_text = "", .begin_of_text = "A", .dtype = TokenType::UInt32});
  CHECK(folder.read<std::uint32_t>("out.bin") == Ids{'A', 257, 'A', 'A', 258});
  CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 4);  // nothing else is left
}

TEST_CASE("write_tokens: a file in parts has the tokens of the whole") {
  const Folder folder;
  const std::string text = long_text();
  const std::vector<fs::path> paths{folder.write("text", text)};
  Parts prefixed = byte_level(some_merges());
  prefixed.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})";
  Parts metaspace = byte_level(some_merges());
  metaspace.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend",)"
                         R"("prepend":"A"},{"type":"ByteLevel"}]})";
  metaspace.pre_tokenizer = "null";
  const Tokenizer pairs = made(byte_level({{"a", "a"}, {"aa", "aa"}}));
  for (const std::size_t length :
       {30001u, 30002u, 30003u}) {  // one word: tokens depend on its begin
    const std::string word(length, 'a');
    write_tokens(pairs, {folder.write("word", word)}, folder.path / "out",
                 {.end_of_text = "", .chunk_bytes = 8193});
    REQUIRE(folder.read<std::uint16_t>("out") == pairs.encode(word));
  }
  for (const Parts& parts : {byte_level(some_merges()), prefixed, metaspace}) {
    const Tokenizer tokenizer = made(parts);
    for (const std::size_t chunk : {std::size_t{8192}, std::size_t{10001}, std::size_t{1} << 20}) {
      write_tokens(tokenizer, paths, folder.path / "out",
                   {.end_of_text = "", .chunk_bytes = chunk});
      REQUIRE(folder.read<std::uint16_t>("out") == tokenizer.encode(text));
    }
  }
}

TEST_CASE("write_tokens: bytes that are not UTF-8, also where parts meet") {
  const Folder folder;
  const Tokenizer tokenizer = made(byte_level());
  std::string text = long_text();
  while ((static_cast<unsigned char>(text[8190]) & 0xc0) == 0x80) text.erase(8190, 1);
  text.insert(8190, "\xe6\x97\xa5");  // a character over the end of the first part
  auto write = [&](InvalidUtf8 invalid) {
    write_tokens(tokenizer, {folder.write("text", text)}, folder.path / "out",
                 {.end_of_text = "", .invalid_utf8 = invalid, .chunk_bytes = 8192});
    return folder.read<std::uint16_t>("out");
  };
  const Ids all = write(InvalidUtf8::Throw);
  CHECK(all == tokenizer.encode(text));
  text[8192] = 'x', text += "\xe6";
  CHECK(
      contains(message_of<BadValue>([&] { write(InvalidUtf8::Throw); }),
               "text` is not UTF-8: its byte 8190 is 0xe6. Convert the file, or set .invalid_utf8 "
               "= InvalidUtf8::Replace."));
  CHECK(folder.read<std::uint16_t>("out") == all);  // the file of before is there
  CHECK(write(InvalidUtf8::Replace) ==
        tokenizer.encode(text, {.invalid_utf8 = InvalidUtf8::Replace}));
}

TEST_CASE("write_tokens: what cannot be written is an error") {
  const Folder folder;
  Tokenizer tokenizer = made(byte_level());
  const fs::path text = folder.write("text", "text"), out = folder.path / "out";
  auto error = [&](const std::vector<fs::path>& paths, const WriteTokensOptions& options = {}) {
    return message_of([&] { write_tokens(tokenizer, paths, out, options); });
  };
  CHECK(error({}) == "write_tokens: there are no paths. Give the text files.");
  CHECK(contains(error({text}, {.end_of_text = "</s>"}),
                 "write_tokens: the tokenizer has no token `</s>`. Set .end_of_text to one that it "
                 "has, or to \"\" for none."));
  CHECK(contains(error({text}, {.begin_of_text = "<s>"}), "Set .begin_of_text to"));
  CHECK(error({text}, {.chunk_bytes = 100}) ==
        "write_tokens: chunk_bytes is 100. Set it from 8192 to 2^29.");
  CHECK_FALSE(error({folder.path / "none"}).empty());
  CHECK_FALSE(fs::exists(out));
  CHECK(contains(message_of<BadValue>([&] { write_tokens(tokenizer, {text}, text); }),
                 "text` would be replaced by its tokens. Give another path for them."));
}

TEST_CASE("write_tokens: tokenizers whose tokens cannot be written are errors") {
  const Folder folder;
  Tokenizer tokenizer = made(byte_level());
  const fs::path text = folder.write("text", "text"), out = folder.path / "out";
  auto error = [&](const std::vector<fs::path>& paths, const WriteTokensOptions& options = {}) {
    return message_of([&] { write_tokens(tokenizer, paths, out, options); });
  };
  tokenizer = made({.model = R"("type":"BPE","merges":[],"vocab":{"t":0,"e":70000,"x":1})"});
  CHECK(error({text}, {.end_of_text = "", .dtype = TokenType::UInt16}) ==
        "write_tokens: the tokenizer has ids up to 70000, and uint16 has numbers up to 65535. Set "
        ".dtype = TokenType::UInt32.");
  CHECK(write_tokens(tokenizer, {text}, out, {.end_of_text = ""}).dtype == TokenType::UInt32);
  CHECK(folder.read<std::uint32_t>("out") == Ids{0, 70000, 1, 0});
  tokenizer = made({.model = R"("type":"WordLevel","unk_token":"?","vocab":{"a":0})"});
  CHECK(contains(error({text}, {.end_of_text = ""}),
                 "text`: tokenizer: the vocabulary has no token"));
  Parts parts = byte_level();
  parts.truncation = R"({"max_length":4,"strategy":"LongestFirst","stride":0})";
  tokenizer = made(parts);
  CHECK(contains(error({text}),
                 "write_tokens: the tokenizer truncates texts, so that most of a "
                 "file would be lost. Call no_truncation() on it."));
  tokenizer.no_truncation();
  CHECK(error({text}).empty());
  parts = byte_level();
  parts.padding = R"({"strategy":{"Fixed":9},"direction":"Left","pad_id":0,"pad_type_id":0,)"
                  R"("pad_token":"a"})";
  tokenizer = made(parts);
  CHECK(contains(error({text}), "the tokenizer pads texts. Call no_padding() on it."));
  tokenizer = made({.model = R"("type":"WordLevel","unk_token":"?","vocab":{"?":0})"});
  folder.write("text", std::string(20001, 'a'));
  CHECK(contains(error({text}, {.end_of_text = "", .chunk_bytes = 8192}),
                 "text`: the text has no place within 8192 bytes at which it can be cut without "
                 "changing its tokens. Set .chunk_bytes to the size of the file."));
}

}  // namespace test::tokenizer::files
