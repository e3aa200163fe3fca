// The code of docs/tokenizer.md, compiled and run.
#include <fstream>
#include <ikebana/tokenizer.hpp>
#include <iostream>

#include "tokenizer/json.hpp"

using namespace ikebana;

namespace test::docs::tokenizer_page {

using test::tokenizer::byte_level;
using test::tokenizer::some_merges;

std::filesystem::path folder_of(const char* name) {
  const auto folder = std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  return folder;
}
void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST_CASE("docs tokenizer: encode and decode") {
  const auto folder = folder_of("ikebana_docs_tokenizer");
  write(folder / "tokenizer.json", test::tokenizer::json(byte_level(some_merges())));
  const auto path = folder / "tokenizer.json";

  Tokenizer tokenizer = Tokenizer::from_file(path);
  std::vector<std::int32_t> ids = tokenizer.encode("the other");
  std::string text = tokenizer.decode(ids);

  CHECK(text == "the other");

  at::Tensor input = tokenizer.encode_tensor("the other");  // Long
  auto batch = tokenizer.encode_batch({"the", "other"}, {.add_special_tokens = false});
  Encoding encoding = tokenizer.encode_with_offsets("the other");
  auto [begin, end] = encoding.offsets[1];  // bytes of the text

  CHECK(input.size(0) == static_cast<std::int64_t>(ids.size()));
  CHECK(batch.size() == 2);
  CHECK((begin == 3 && end == 4));

  std::ostringstream out;
  StreamingDecoder decoder(tokenizer);
  for (std::int32_t id : ids) out << decoder.step(id) << std::flush;
  out << decoder.finish();

  CHECK(out.str() == text);

  if (!tokenizer.token_to_id("<pad>")) out << "no <pad> among " << tokenizer.vocab_size();
  CHECK(out.str() == "the otherno <pad> among 264");
  std::filesystem::remove_all(folder);
}

TEST_CASE("docs tokenizer: files of tokens") {
  const auto folder = folder_of("ikebana_docs_tokens");
  write(folder / "a.txt", "the other"), write(folder / "b.txt", " in");
  Tokenizer tokenizer = Tokenizer::from_str(test::tokenizer::json(byte_level(some_merges())));

  write_tokens(tokenizer, {folder / "a.txt", folder / "b.txt"}, folder / "train.bin",
               {.end_of_text = "<|endoftext|>"});

  CHECK(std::filesystem::file_size(folder / "train.bin") == 2 * 9);
  std::filesystem::remove_all(folder);
}

TEST_CASE("docs tokenizer: what is refused") {
  const std::string message = message_of<BadFile>([] {
    test::tokenizer::Parts parts = byte_level();
    parts.normalizer = R"({"type":"Precompiled","precompiled_charsmap":""})";
    test::tokenizer::made(parts);
  });
  CHECK(message ==
        "tokenizer: `the given text` cannot be obeyed: `normalizer` has the type `Precompiled`, "
        "which is not supported. Change the file, or encode with Hugging Face's tokenizers "
        "(docs/tokenizer.md).");
}

}  // namespace test::docs::tokenizer_page
