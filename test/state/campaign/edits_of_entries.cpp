// Changes of the tensors' entries in the header, and of their bytes.
#include <algorithm>
#include <ikebana/state/files/safetensors_format.hpp>

#include "state/campaign/edits.hpp"

namespace campaign {
namespace {

using enum Outcome;
using Texts = std::vector<std::string>;

std::string_view bytes_of(const Document& d, const Entry& e) {
  return std::string_view(d.data).substr(std::min<std::uint64_t>(e.begin, d.data.size()),
                                         e.bytes());
}
/// Returns two tensors of one size, whose bytes differ. After another change there may be no such
/// tensors.
std::pair<Entry*, Entry*> two_alike(Document& d, Random& random) {
  for (int tries = 0;; ++tries) {
    Entry &a = any_of(d.tensors, random), &b = any_of(d.tensors, random);
    if (tries == 10'000 || (a.bytes() == b.bytes() && a.dtype == b.dtype && a.shape == b.shape &&
                            bytes_of(d, a) != bytes_of(d, b)))
      return {&a, &b};
  }
}

void swap_places(Document& d, Random& random) {
  auto [a, b] = two_alike(d, random);
  std::swap(a->begin, b->begin), std::swap(a->end, b->end);
}
void swap_names(Document& d, Random& random) {
  auto [a, b] = two_alike(d, random);
  std::swap(a->name, b->name);
}
void share_a_place(Document& d, Random& random) {
  auto [a, b] = two_alike(d, random);
  a->begin = b->begin, a->end = b->end;
}
void one_more_dimension(Document& d, Random& random) {
  any_of(d.tensors, random).shape.push_back(1);
}

/// Returns a shape whose number of bytes is right modulo 2^64.
std::uint64_t wrapping(const Entry& e) {
  const std::uint64_t width = std::max<std::uint64_t>(4, ikebana::detail::bytes_of_type(e.dtype));
  return (std::uint64_t{1} << 62) / (width / 4) + e.bytes() / width;
}
void wrong_shape(Document& d, Random& random) {
  Entry& e = any_of(d.tensors, random);
  const Texts texts = {"[4294967296,4294967296]",
                       "[9223372036854775807]",
                       "[9223372036854775808]",
                       "[18446744073709551617]",
                       "[-1]",
                       "[1.0]",
                       "[1e3]",
                       "[01]",
                       "[\"1\"]",
                       "[null]",
                       "[true]",
                       "[[1]]",
                       "{}",
                       "null",
                       "\"\"",
                       "3",
                       "[1,]",
                       "[,1]",
                       "[1",
                       "[0,9223372036854775807,9223372036854775807]",
                       "[3037000500,3037000500,4]",
                       "[" + std::to_string(wrapping(e)) + "]",
                       "[0]",
                       "[1000003]",
                       "[1 1]",
                       "[+1]",
                       "[" +
                           [] {
                             std::string ones = "1";
                             for (int i = 0; i < 64; ++i) ones += ",1";
                             return ones;
                           }() +
                           "]"};
  e.raw["shape"] = any_of(texts, random);
}
void type_of_same_width(Document& d, Random& random) {
  const std::vector<Texts> alike = {{"F32", "I32", "U32"},
                                    {"F64", "I64", "U64", "C64"},
                                    {"U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"},
                                    {"F16", "BF16", "I16", "U16"}};
  Entry& e = any_of(d.tensors, random);
  for (const Texts& names : alike)
    if (std::count(names.begin(), names.end(), e.dtype))
      return void(e.dtype = any_of(names, random));
}
void wrong_type(Document& d, Random& random) {
  Entry& e = any_of(d.tensors, random);
  const Texts texts = {"\"f32\"",        "\"\"",     "\"F32 \"", "1",
                       "null",           "[]",       "{}",       "\"F4\"",
                       "\"F6_E2M3\"",    "\"BF16\"", "\"F16\"",  "\"pickle\"",
                       "\"F32\\u0000\"", "F32",      "true",     ""};
  do e.raw["dtype"] = any_of(texts, random);
  while (e.raw["dtype"] == "\"" + e.dtype + "\"");
}
void wrong_offsets(Document& d, Random& random) {
  Entry& e = any_of(d.tensors, random);
  auto two = [](std::uint64_t a, std::uint64_t b) {
    return "[" + std::to_string(a) + "," + std::to_string(b) + "]";
  };
  const std::uint64_t n = d.data.size(), max = ~std::uint64_t{0};
  const Texts texts = {two(e.begin + 1, e.end),
                       two(e.begin, e.end + 1),
                       two(e.begin, e.end - 1),
                       two(e.begin + 1, e.end + 1),
                       two(e.end, e.begin),
                       two(n, n + e.bytes()),
                       two(0, n),
                       two(max / 2 + 1, max / 2 + 1 + e.bytes()),
                       two(max - 3, max),
                       two(max / 2 - e.bytes(), max / 2),
                       "[0]",
                       "[]",
                       "[0,1,2]",
                       "[-1,3]",
                       "null",
                       "[0.0,4.0]",
                       "[0,4e0]",
                       "[\"0\",\"4\"]",
                       "\"0,4\"",
                       "{\"0\":4}",
                       "[00,4]",
                       "[0,4",
                       "[null,null]",
                       "[0,[4]]",
                       ""};
  e.raw["data_offsets"] = any_of(texts, random);
}
void make_a_hole(Document& d, Random& random) {
  const std::uint64_t at = any_of(d.tensors, random).begin;
  for (Entry& e : d.tensors)
    if (e.begin >= at) e.begin += 4, e.end += 4;
  d.data.insert(std::min<std::uint64_t>(at, d.data.size()), 4, '\0');
}
void repeat_an_entry(Document& d, Random& random) {
  const Entry copy = any_of(d.tensors, random);
  d.tensors.insert(d.tensors.begin() + static_cast<std::int64_t>(random() % d.tensors.size()),
                   copy);
}
void remove_an_entry(Document& d, Random& random) {
  d.tensors.erase(d.tensors.begin() + static_cast<std::int64_t>(random() % d.tensors.size()));
}
void cut_the_last(Document& d, Random&) {
  auto last = std::max_element(d.tensors.begin(), d.tensors.end(),
                               [](const Entry& a, const Entry& b) { return a.end < b.end; });
  d.data.resize(last->begin);
  d.tensors.erase(last);
}
void rename_one(Document& d, Random& random) {
  const Texts names = {"../../x",
                       "/etc/passwd",
                       "",
                       "a\nb",
                       std::string("a\0b", 3),
                       "\xc3\xa9",
                       "\xf0\x9f\x98\x80",
                       "\x1b[31m",
                       std::string(5000, 'n'),
                       "__metadata",
                       "\"",
                       "\\"};
  any_of(d.tensors, random).name = any_of(names, random);
}
void rename_at_length(Document& d, Random& random) {
  any_of(d.tensors, random).name = std::string(long_length(random), 'n');
}
void wrong_entry(Document& d, Random& random) {
  const Texts texts = {"[]",
                       "null",
                       "3",
                       "{}",
                       "\"\"",
                       "true",
                       "{\"dtype\":\"F32\"}",
                       "{",
                       std::string(100'000, '['),
                       "{\"a\":" + std::string(100'000, '{')};
  any_of(d.tensors, random).instead = any_of(texts, random);
}
void one_more_field(Document& d, Random& random) {
  const Texts texts = {
      ",\"x\":1", ",\"dtype\":\"F32\"",       ",\"shape\":[]",           ",\"strides\":[1]",
      ",",        ",\"\\u0064type\":\"F32\"", ",\"data_offsets\":[0,4]", ",null"};
  any_of(d.tensors, random).more = any_of(texts, random);
}
void change_a_byte(Document& d, Random& random) {
  const Entry& e = any_of(d.tensors, random);
  if (e.end > d.data.size() || e.bytes() == 0) return;  // after another change
  if (e.dtype == "BOOL") return change_a_byte(d, random);
  char& byte = d.data[e.begin + random() % e.bytes()];
  byte = static_cast<char>(byte ^ (1 + random() % 255));
}
void wrong_length_of_data(Document& d, Random& random) {
  const std::size_t n = d.data.size(), sizes[] = {0, n - 1, n + 1, n / 2, 2 * n, n + 64, n + 4096};
  d.data.resize(any_of(sizes, random), 'x');
}

}  // namespace

const std::vector<Edit>& edits_of_entries() {
  static const std::vector<Edit> all = {
      {"swap places", Rejected, Other, swap_places},
      {"swap names", Rejected, Other, swap_names},
      {"share a place", Rejected, Rejected, share_a_place},
      {"one more dimension", Other, Other, one_more_dimension},
      {"wrong shape", Rejected, Rejected, wrong_shape},
      {"type of same width", Other, Other, type_of_same_width},
      {"wrong type", Rejected, Rejected, wrong_type},
      {"wrong offsets", Rejected, Rejected, wrong_offsets},
      {"a hole", Rejected, Rejected, make_a_hole},
      {"an entry twice", Rejected, Rejected, repeat_an_entry},
      {"an entry less", Rejected, Rejected, remove_an_entry},
      {"the last cut", Rejected, Other, cut_the_last},
      {"another name", Rejected, Other, rename_one},
      {"a long name", Rejected, Other, rename_at_length},
      {"wrong entry", Rejected, Rejected, wrong_entry},
      {"one more field", Rejected, Rejected, one_more_field},
      {"a byte", Rejected, Other, change_a_byte},
      {"wrong length of data", Rejected, Rejected, wrong_length_of_data},
  };
  return all;
}

}  // namespace campaign
