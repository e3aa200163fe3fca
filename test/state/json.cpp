// Tests the reader and the writer of JSON.
#include <bit>
#include <cmath>
#include <ikebana/error.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <limits>
#include <random>

#include "test.hpp"

using namespace ikebana;
using ikebana::detail::Json;
using ikebana::detail::JsonStyle;
using ikebana::detail::JsonWriter;

namespace test::json {

std::int64_t whole(const std::string& text) {
  Json json(text, 0);
  const std::int64_t value = json.signed_integer();
  json.expect_end("a number");
  return value;
}
/// Returns the problem that the reader finds, and its byte.
template <class Read>
std::string problem(Read&& read) {
  try {
    read();
  } catch (const Json::ParseError& error) {
    return error.what + " at " + std::to_string(error.offset);
  }
  return {};
}
/// Returns what `write` writes.
template <class Write>
std::string written(Write&& write, JsonStyle style = {}) {
  JsonWriter json(style);
  write(json);
  return std::move(json).text();
}
template <class Value>
std::string one(const Value& value, JsonStyle style = {}) {
  return written([&](JsonWriter& json) { json.value(value); }, style);
}

constexpr auto min = std::numeric_limits<std::int64_t>::min();
constexpr auto max = std::numeric_limits<std::int64_t>::max();

TEST_CASE("json: whole numbers are read in the full range of 64 bits, with one spelling") {
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{7}, std::int64_t{-1},
                                   std::int64_t{-10}, min, min + 1, max, max - 1}) {
    CHECK(whole(std::to_string(value)) == value);
    CHECK(whole(one(value)) == value);
  }
  CHECK(whole(" -0 ") == 0);
  const auto of = [](const char* text) { return problem([&] { whole(text); }); };
  CHECK(of("9223372036854775808") == "a number is too large at 18");
  CHECK(of("-9223372036854775809") == "a number is too large at 19");
  CHECK(of("-99999999999999999999") == "a number is too large at 19");
  for (const char* text : {"", "-", "- 1", "--1", "+1", "x", ".5"})
    CHECK(contains(of(text), "a whole number is missing"));
  for (const char* text : {"-01", "00", "-00"}) CHECK(contains(of(text), "a number begins with 0"));
  for (const char* text : {"1.0", "-1e3", "1-"}) CHECK(contains(of(text), "something follows"));
  CHECK(problem([] { Json("-1", 0).integer(); }) ==
        "a whole number that is not negative is missing at 0");
  CHECK(problem([] { Json("9223372036854775808", 5).integer(); }) == "a number is too large at 23");
}

TEST_CASE("json: an excerpt of any bytes is valid and short") {
  CHECK(Json::excerpt("a\"\n") == "a\\\"\\u000a");
  CHECK(Json::excerpt("a\xff\xc3") == "a??");
  CHECK(Json::excerpt(std::string(100, 'x')) == std::string(100, 'x'));
  CHECK(Json::excerpt(std::string(101, 'x')) == std::string(100, 'x') + "...");
}

TEST_CASE("json: the writer places commas, colons and brackets") {
  const auto all = [](JsonWriter& json) {
    json.object([&] {
      json.object("empty", [] {});
      json.array("list", [&] {
        json.value(1), json.null(), json.boolean(true);
        json.array([] {});
        json.object([&] { json.member("b", -2); });
      });
      json.member("shape", std::vector<std::int64_t>{2, 3});
      json.member("texts", std::array{"x", "<y>"});
      json.member("none", nullptr), json.member("flags", std::vector<bool>{true, false});
      json.key("half"), json.number(0.5);
    });
  };
  CHECK(written(all) == R"({"empty":{},"list":[1,null,true,[],{"b":-2}],"shape":[2,3],)"
                        R"("texts":["x","<y>"],"none":null,"flags":[true,false],"half":0.5})");
  CHECK(written(all, {.spaces = true, .in_html = true}) ==
        R"({"empty": {}, "list": [1, null, true, [], {"b": -2}], "shape": [2, 3], )"
        R"("texts": ["x", "\u003cy>"], "none": null, "flags": [true, false], "half": 0.5})");
  CHECK(one(std::uint64_t{18446744073709551615u}) == "18446744073709551615");
}

TEST_CASE("json: every text is read as it was written, and other bytes are refused") {
  const std::vector<std::string> parts{"a",
                                       "\"",
                                       "\\",
                                       "/",
                                       "<",
                                       "\x7f",
                                       "\xc3\xa9",
                                       "\xe2\x80\xa8",
                                       "\xf0\x9f\x98\x80",
                                       std::string(1, '\0'),
                                       "\n",
                                       "\b",
                                       "\x1f",
                                       "\\u0041"};
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 10; n > 0; --n) text += parts[random() % parts.size()];
    for (const bool in_html : {false, true}) {
      const std::string json = one(text, {.in_html = in_html});
      CHECK(Json(json, 0).string() == text);
      if (in_html) CHECK(!contains(json, "<"));
    }
  }
  CHECK(message_of<BadValue>([] { one("a\xff"); }) ==
        "state: a name or a text is not UTF-8: `a...`. Use UTF-8.");
  CHECK(contains(message_of<BadValue>([] {
                   written([](JsonWriter& json) { json.object([&] { json.key("\xc0\x80"); }); });
                 }),
                 "is not UTF-8"));
}

TEST_CASE("json: every finite number is read with the same bits, and is no whole number") {
  std::mt19937_64 random(2);
  std::vector<double> numbers{0.0,  -0.0, 1,   -1,     1e15,
                              1e16, 1e22, 0.1, 5e-324, 1.7976931348623157e308};
  while (numbers.size() < 20'000)
    if (const double next = std::bit_cast<double>(random()); std::isfinite(next))
      numbers.push_back(next);
  for (const double number : numbers) {
    const std::string text = one(number);
    CHECK(std::bit_cast<std::uint64_t>(Json(text, 0).number()) ==
          std::bit_cast<std::uint64_t>(number));
    CHECK(text.find_first_of(".e") != text.npos);
  }
  CHECK(one(1.0) == "1.0");
  CHECK(one(-0.0) == "-0.0");
}

TEST_CASE("json: infinities and NaN are an error, or texts as torch.export writes them") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double number : {infinity, -infinity, std::nan("")})
    CHECK(contains(message_of<BadValue>([&] { one(number); }), "which JSON cannot hold"));
  const JsonStyle as_text{.not_finite = JsonStyle::NotFinite::Text};
  CHECK(one(std::array{infinity, -infinity, std::nan("")}, as_text) ==
        R"(["Infinity","-Infinity","NaN"])");
}

TEST_CASE("json: a call in the wrong place is an error, and writes nothing invalid") {
  const auto wrong = [](auto&& write) {
    CHECK(message_of<Error>([&] { written(write); }) == "json: a call in the wrong place");
  };
  wrong([](JsonWriter&) {});
  wrong([](JsonWriter& json) { json.null(), json.null(); });
  wrong([](JsonWriter& json) { json.key("a"); });
  wrong([](JsonWriter& json) { json.object([&] { json.null(); }); });
  wrong([](JsonWriter& json) { json.object([&] { json.object([] {}); }); });
  wrong([](JsonWriter& json) { json.object([&] { json.key("a"); }); });
  wrong([](JsonWriter& json) { json.object([&] { json.key("a"), json.key("b"); }); });
  wrong([](JsonWriter& json) { json.array([&] { json.key("a"); }); });
  wrong([](JsonWriter& json) { json.array([&] { json.object([&] { json.null(); }); }); });
  wrong([](JsonWriter& json) { json.array([&] { (void)std::move(json).text(); }); });
}

}  // namespace test::json
