// Examples of the reference: tokenizers, and files of tokens.
#include <ikebana/files/token_files.hpp>
#include <ikebana/tokenizer.hpp>

#include "images/temporary.hpp"
#include "policies.hpp"
#include "tokenizer/json.hpp"

namespace test::reference::of_tokenizer {

using Folder = test::images::Folder;

std::string file_of_tokenizer() {
  return test::tokenizer::json(test::tokenizer::byte_level(test::tokenizer::some_merges()));
}

TEST_CASE("reference: a tokenizer") {
  const Folder temporary("reference_tokenizer");
  const auto path = temporary.write("tokenizer.json", file_of_tokenizer());
  // example: Tokenizer
  Tokenizer tokenizer = Tokenizer::from_file(path);
  std::vector<std::int32_t> ids = tokenizer.encode("the other");
  std::string text = tokenizer.decode(ids);
  at::Tensor input = tokenizer.encode_tensor("the other");  // (tokens), Long
  nn::Embedding embedding(tokenizer.largest_id() + 1, 64);  // a row for each id
  // end
  CHECK((text == "the other" && input.size(0) == std::ssize(ids)));
  CHECK(embedding->weight.size(0) == 264);

  // example: EncodeOptions, InvalidUtf8
  EncodeOptions options{.add_special_tokens = false, .invalid_utf8 = InvalidUtf8::Replace};
  auto batch = tokenizer.encode_batch({"the", "other", "caf\xe9"}, options);  // on several threads
  std::string replaced = tokenizer.decode(batch[2]);                          // "caf\ufffd"
  // end
  CHECK((batch.size() == 3 && replaced == "caf\xef\xbf\xbd"));

  // example: DecodeOptions
  std::vector<std::int32_t> generated = tokenizer.encode("the other<|endoftext|>");
  std::string plain = tokenizer.decode(generated);  // without the special token
  std::string whole = tokenizer.decode(generated, DecodeOptions{.skip_special_tokens = false});
  // end
  CHECK((plain == "the other" && whole == "the other<|endoftext|>"));
}

TEST_CASE("reference: where tokens stand in a text") {
  const Tokenizer tokenizer = Tokenizer::from_str(file_of_tokenizer());
  // example: Encoding
  Encoding encoding = tokenizer.encode_with_offsets("the other");
  auto [begin, end] = encoding.offsets[1];                                 // bytes of the text
  std::string part = std::string("the other").substr(begin, end - begin);  // the second token
  // end
  CHECK((part == " " && encoding.ids.size() == encoding.offsets.size()));

  // example: AddedToken
  std::vector<std::int32_t> special;
  for (const AddedToken& token : tokenizer.get_added_tokens())
    if (token.special) special.push_back(token.id);  // such as `<|endoftext|>`
  // end
  CHECK(special == std::vector<std::int32_t>{263});
}

TEST_CASE("reference: text as it is generated") {
  const Tokenizer tokenizer = Tokenizer::from_str(file_of_tokenizer());
  const std::vector<std::int32_t> generated = tokenizer.encode("the caf\xc3\xa9");
  Printed printed;
  // example: StreamingDecoder
  StreamingDecoder decoder(tokenizer);
  for (std::int32_t id : generated) std::cout << decoder.step(id) << std::flush;
  std::cout << decoder.finish() << '\n';
  // end
  CHECK(printed.text() == "the caf\xc3\xa9\n");
}

TEST_CASE("reference: texts become a file of tokens") {
  const Folder temporary("reference_write_tokens");
  const std::filesystem::path& folder = temporary.root;
  temporary.write("a.txt", "the other"), temporary.write("b.txt", " in the end");
  const Tokenizer tokenizer = Tokenizer::from_str(file_of_tokenizer());
  // example: write_tokens, WriteTokensOptions, TokenType, WrittenTokens
  WriteTokensOptions options{.end_of_text = "<|endoftext|>", .dtype = TokenType::UInt16};
  WrittenTokens written =
      write_tokens(tokenizer, {folder / "a.txt", folder / "b.txt"}, folder / "train.bin", options);

  TokenFiles train(folder / "train.bin", {.length = 4, .dtype = at::kUInt16});
  // end
  CHECK((written.documents == 2 && written.dtype == TokenType::UInt16));
  CHECK(train.tokens() == static_cast<std::int64_t>(written.tokens));
}

}  // namespace test::reference::of_tokenizer
