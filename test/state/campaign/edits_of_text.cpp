// Changes of the metadata, of how the header is written, and of its length.
#include <algorithm>

#include "state/campaign/edits.hpp"

namespace campaign {
namespace {

using enum Outcome;
using Texts = std::vector<std::string>;

std::string escaped(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    all += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
  }
  return all + "\"";
}

void other_spaces(Document& d, Random& random) {
  const Texts colons = {" :", ": ", "\t:\n"}, commas = {", ", " ,", "\r\n,\t"};
  d.colon = any_of(colons, random), d.comma = any_of(commas, random);
}
void other_order(Document& d, Random& random) {
  std::shuffle(d.metadata.begin(), d.metadata.end(), random);
  std::shuffle(d.tensors.begin(), d.tensors.end(), random);
}
void name_in_escapes(Document& d, Random& random) {
  Entry& e = any_of(d.tensors, random);
  e.raw["name"] = escaped(e.name);
}
void same_name_in_escapes(Document& d, Random& random) {
  Entry copy = any_of(d.tensors, random);
  copy.raw["name"] = escaped(copy.name);
  d.tensors.push_back(copy);
}
void name_that_is_no_text(Document& d, Random& random) {
  const Texts names = {"\"\xff\"",
                       "\"a\xc0\x80\"",
                       "\"\xed\xa0\x80\"",
                       "\"\xf4\x90\x80\x80\"",
                       "\"\xe2\x82\"",
                       "\"\xc3\"",
                       "\"\x80\"",
                       "\"\xf8\x88\x80\x80\x80\"",
                       "\"\\ud800\"",
                       "\"\\udc00\"",
                       "\"\\udc00\\ud800\"",
                       "\"\\ud800\\ud800\"",
                       "\"\\ud800x\"",
                       "\"\\ud83d\\u0041\"",
                       "\"\\u12\"",
                       "\"\\u12g4\"",
                       "\"\\x41\"",
                       "\"\\",
                       "\"a\nb\"",
                       std::string("\"a\0b\"", 5),
                       "'a'",
                       "a",
                       "1",
                       "null",
                       "",
                       "\"a",
                       "\"\\\"",
                       "[\"a\"]",
                       "\"a\" \"b\""};
  any_of(d.tensors, random).raw["name"] = any_of(names, random);
}
void more_padding(Document& d, Random& random) {
  const Texts ends = {"", " ", "        ", std::string(5000, ' '), "\n", "\t \r\n"};
  d.back = any_of(ends, random);
}
void wrong_end(Document& d, Random& random) {
  const Texts ends = {std::string(1, '\0'),    "x",    "}",        " }", "{}",      ",",
                      std::string("  \0 ", 4), "/**/", " \"a\":1", "\v", "\xc2\xa0"};
  d.back = any_of(ends, random);
}
void wrong_begin(Document& d, Random& random) {
  const Texts begins = {" ",  "\xef\xbb\xbf", "[",        "{", "//\n", std::string(1, '\0'),
                        "\n", "PK\x03\x04",   "\x80\x02}"};
  d.front = any_of(begins, random);
}
void wrong_marks(Document& d, Random& random) {
  const Texts colons = {"", "::", "=", " , "}, commas = {",,", "", ";", ",/**/", ":", ",\v"};
  if (random() % 2) d.colon = any_of(colons, random);
  else d.comma = any_of(commas, random);
}
void wrong_length(Document& d, Random& random) {
  const std::uint64_t n = d.written(FixChecksums::None).size(), header = n - 8 - d.data.size(),
                      high = std::uint64_t{1} << 63;
  const std::uint64_t all[] = {0,
                               1,
                               2,
                               header - 1,
                               header + 1,
                               header - 8,
                               header + 8,
                               n,
                               n - 7,
                               n - 8,
                               n - 9,
                               high,
                               high - 1,
                               ~std::uint64_t{0},
                               ~std::uint64_t{0} - 7,
                               ~std::uint64_t{0} - 8,
                               100'000'000,
                               100'000'001,
                               header | high,
                               header << 8};
  d.length = any_of(all, random);
}
void note(Document& d, Random& random) {
  const Texts values = {"\"\"", "\"hello\"", "\"\\u0000\"", "\"\\ud83d\\ude00\"",
                        "\"\\/\\b\\f\\n\""};
  d.metadata.emplace_back("\"note\"", any_of(values, random));
}
void long_note(Document& d, Random& random) {
  d.metadata.emplace_back("\"note\"", "\"" + std::string(long_length(random), 'n') + "\"");
}
void many_notes(Document& d, Random&) {
  for (int i = 0; i < 2'000; ++i) d.metadata.emplace_back("\"" + std::to_string(i) + "\"", "\"\"");
}
void wrong_metadata(Document& d, Random& random) {
  if (d.metadata.empty()) return;  // after another change
  const Texts values = {"1",
                        "null",
                        "true",
                        "{}",
                        "[]",
                        "[\"a\"]",
                        "{\"a\":\"b\"}",
                        "\"a",
                        "",
                        "\"\xff\"",
                        "\"\\ud800\"",
                        std::string(100'000, '['),
                        "\"a\" \"b\"",
                        "'a'"};
  any_of(d.metadata, random).second = any_of(values, random);
  d.keeps_checksums = true;
}
void metadata_twice(Document& d, Random& random) {
  if (d.metadata.empty()) return;  // after another change
  auto copy = any_of(d.metadata, random);
  if (random() % 2) copy.first = escaped(copy.first.substr(1, copy.first.size() - 2));
  d.metadata.push_back(copy);
  d.keeps_checksums = true;
}
void second_metadata(Document& d, Random& random) {
  Entry e = any_of(d.tensors, random);
  e.raw["name"] = random() % 2 ? "\"__metadata__\"" : "\"\\u005f_metadata__\"", e.instead = "{}";
  d.tensors.push_back(e);
}
void no_checksum(Document& d, Random& random) {
  if (random() % 4 == 0) d.metadata.clear();
  else if (random() % 2) d.remove_metadata("ikebana.crc32");
  else d.remove_metadata("ikebana.crc32." + any_of(d.tensors, random).name);
  d.keeps_checksums = true;
}
void wrong_checksum(Document& d, Random& random) {
  const Texts values = {"\"0000000\"",        "\"\"",         "\"000000000\"", "\"0x000000\"",
                        "\"\\u00300000000\"", "\" 0000000\"", "\"ffffffff\"",  "\"FFFFFFFF\""};
  const std::string name = "ikebana.crc32." + any_of(d.tensors, random).name;
  d.remove_metadata(name);
  d.metadata.emplace_back("\"" + name + "\"", any_of(values, random));
  d.keeps_checksums = true;
}
void checksum_of_nothing(Document& d, Random& random) {
  const Texts keys = {"\"ikebana.crc32.none\"", "\"ikebana.dtype.none\"", "\"ikebana.crc32.\""};
  d.metadata.emplace_back(any_of(keys, random), "\"00000000\"");
  d.keeps_checksums = true;
}
constexpr std::string_view types[] = {
    // clang-format off
    "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "ComplexHalf",
    "ComplexFloat", "ComplexDouble", "Bool", "QInt8", "QUInt8", "QInt32", "BFloat16", "QUInt4x2",
    "QUInt2x4", "Bits1x8", "Bits2x4", "Bits4x2", "Bits8", "Bits16", "Float8_e5m2", "Float8_e4m3fn",
    "UInt16", "UInt32", "UInt64", "UInt1", "UInt7", "Int1", "Int7", "Float8_e8m0fnu",
    "Float4_e2m1fn_x2", "Undefined", "UNKNOWN_SCALAR", "", "os.system"};
// clang-format on

/// Makes a tensor of bytes whose metadata name a dtype that the format does not know.
void type_in_metadata(Document& d, Random& random) {
  Entry& e = any_of(d.tensors, random);
  const std::int64_t widths[] = {1, 2, 4, 8, 16, 0, static_cast<std::int64_t>(e.bytes())};
  const std::int64_t width = any_of(widths, random);
  e.dtype = "U8";
  e.shape = {static_cast<std::int64_t>(e.bytes()) / std::max<std::int64_t>(width, 1), width};
  d.metadata.emplace_back("\"ikebana.dtype." + e.name + "\"",
                          "\"" + std::string(any_of(types, random)) + "\"");
}

}  // namespace

const std::vector<Edit>& edits_of_text() {
  static const std::vector<Edit> all = {
      {"other spaces", Same, Same, other_spaces},
      {"other order", Same, Same, other_order},
      {"a name in escapes", Same, Same, name_in_escapes},
      {"more padding", Same, Same, more_padding},
      {"a note", Same, Same, note},
      {"a long note", Same, Same, long_note},
      {"many notes", Same, Same, many_notes},
      {"a name twice, once in escapes", Rejected, Rejected, same_name_in_escapes},
      {"a name that is no text", Rejected, Rejected, name_that_is_no_text},
      {"wrong end", Rejected, Rejected, wrong_end},
      {"wrong begin", Rejected, Rejected, wrong_begin},
      {"wrong marks", Rejected, Rejected, wrong_marks},
      {"wrong length", Rejected, Rejected, wrong_length},
      {"wrong metadata", Rejected, Rejected, wrong_metadata},
      {"metadata twice", Rejected, Rejected, metadata_twice},
      {"two metadata", Rejected, Rejected, second_metadata},
      {"no checksum", Rejected, Rejected, no_checksum},
      {"wrong checksum", Rejected, Rejected, wrong_checksum},
      {"a checksum of nothing", Rejected, Rejected, checksum_of_nothing},
      {"a type in the metadata", Any, Any, type_in_metadata},
  };
  return all;
}

}  // namespace campaign
