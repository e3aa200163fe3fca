// Encodes and decodes texts for oracle.py, which compares with Python's tokenizers.
//
//     oracle_program TOKENIZER.json TEXTS RESULTS
//
// TEXTS has, for each text, its size in four bytes and the text. RESULTS has for each text: its ids
// with special tokens, its ids without, the offsets of the first, and their text without and with
// special tokens; each with its size before it.
#include <cstdio>
#include <ikebana/tokenizer/streaming_decoder.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>

namespace {

using ikebana::Tokenizer;
using Ids = std::vector<std::int32_t>;

class Results {
 public:
  void number(std::size_t n) {
    const auto value = static_cast<std::uint32_t>(n);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void ids(const Ids& all) {
    number(all.size());
    for (const std::int32_t id : all) number(static_cast<std::uint32_t>(id));
  }
  void text(const std::string& t) { number(t.size()), bytes += t; }
  std::string bytes;
};

void check(bool is_right, const char* what) {
  if (!is_right) throw ikebana::Error(what);
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skips) {
  ikebana::StreamingDecoder decoder(tokenizer, {.skip_special_tokens = skips});
  std::string all;
  for (const std::int32_t id : ids) {
    const std::string part = decoder.step(id);
    check(ikebana::detail::tokenizer::first_invalid_utf8(part) == part.npos, "a part is not UTF-8");
    all += part;
  }
  return all + decoder.finish();
}

void run(const Tokenizer& tokenizer, const std::string& text, Results& out) {
  const Ids ids = tokenizer.encode(text);
  const ikebana::Encoding encoding = tokenizer.encode_with_offsets(text);
  check(encoding.ids == ids, "the ids with offsets are others");
  check(tokenizer.encode(text) == ids, "the ids of words in the cache are others");
  out.ids(ids);
  out.ids(tokenizer.encode(text, {.add_special_tokens = false}));
  out.number(encoding.offsets.size());
  for (const auto& [begin, end] : encoding.offsets) out.number(begin), out.number(end);
  for (const bool skips : {true, false}) {
    const std::string decoded = tokenizer.decode(ids, {.skip_special_tokens = skips});
    check(decoded == streamed(tokenizer, ids, skips), "a stream gives another text");
    out.text(decoded);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  const Tokenizer tokenizer = Tokenizer::from_file(argv[1]);
  const std::string all = ikebana::detail::tokenizer::read_whole(argv[2]);
  Results out;
  for (std::size_t at = 0; at < all.size();) {
    std::uint32_t n = 0;
    std::memcpy(&n, all.data() + at, sizeof n);
    run(tokenizer, all.substr(at + sizeof n, n), out);
    at += sizeof n + n;
  }
  std::FILE* file = std::fopen(argv[3], "wb");
  if (file == nullptr) return 2;
  std::fwrite(out.bytes.data(), 1, out.bytes.size(), file);
  return std::fclose(file);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
