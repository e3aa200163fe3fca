// The reader and the writer of JSON.
#include <ikebana/state/files/json.hpp>
#include <limits>

#include "test.hpp"

using ikebana::detail::Json;

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

TEST_CASE("json: whole numbers are read in the full range of 64 bits, with one spelling") {
  constexpr auto min = std::numeric_limits<std::int64_t>::min();
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t value : {std::int64_t{0}, std::int64_t{7}, std::int64_t{-1},
                                   std::int64_t{-10}, min, min + 1, max, max - 1})
    CHECK(whole(std::to_string(value)) == value);
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

}  // namespace test::json
