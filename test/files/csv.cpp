// read_csv: quoting, line ends, types, missing values, and errors with their place.
#include <ikebana/files/csv.hpp>
#include <ikebana/files/csv_reader.hpp>
#include "csv_files.hpp"

using namespace ikebana;

namespace test::files::csv {

namespace {

std::string error_of(const std::string& text, const CsvOptions& options = {}) {
  return message_of<Error>([&] { read(text, options); });
}
bool is(const at::Tensor& values, at::ScalarType dtype, std::vector<double> expected) {
  return values.scalar_type() == dtype &&
         same_bits(values.to(at::kDouble), at::tensor(expected, at::kDouble));
}
const double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("csv: types are found per column, and columns are tensors") {
  const Table table = read("rooms,area,sold,colour\n3,70.5,True,red\n4,1e2,False,blue\n");
  CHECK(table.rows() == 2);
  CHECK(table.names() == std::vector<std::string>{"rooms", "area", "sold", "colour"});
  CHECK(is(table["rooms"], at::kLong, {3, 4}));
  CHECK(is(table["area"], at::kDouble, {70.5, 100}));
  CHECK(is(table["sold"], at::kBool, {1, 0}));
  CHECK(table.text("colour") == std::vector<std::string>{"red", "blue"});
  const at::Tensor both = table.tensor({"area", "rooms"});
  CHECK(same_bits(both, at::tensor({70.5f, 3.f, 100.f, 4.f}).view({2, 2})));
  CHECK(table.has("area"));
  CHECK(!table.has("price"));
}

TEST_CASE("csv: fields are quoted with separators, line breaks and doubled quotes in them") {
  const Table table =
      read("a,\"b,\"\"c\"\"\"\n\"1\",\"x,\ny\"\n2,\"he said \"\"no\"\"\"\n3,5\" tall\n");
  CHECK(table.names() == std::vector<std::string>{"a", "b,\"c\""});
  CHECK(is(table["a"], at::kLong, {1, 2, 3}));
  CHECK(table.text("b,\"c\"") == std::vector<std::string>{"x,\ny", "he said \"no\"", "5\" tall"});
}

TEST_CASE("csv: line ends, a byte order mark, empty lines and the end of the file change nothing") {
  for (const char* end : {"\n", "\r\n", "\r"})
    for (const char* mark : {"", "\xef\xbb\xbf"})
      for (const char* empty : {"", "\n", " \n\n"})
        for (bool has_end : {true, false}) {
          const std::string e = end;
          const Table table = read(mark + std::string("a,b") + e + empty + "1,x" + e + empty +
                                   "2,y" + (has_end ? e + empty : ""));
          CHECK(is(table["a"], at::kLong, {1, 2}));
          CHECK(table.text("b") == std::vector<std::string>{"x", "y"});
        }
}

TEST_CASE("csv: blocks of any size give the same table, also where columns become text late") {
  std::string text = "id,value,mark,word,late\n";
  for (int i = 0; i < 300; ++i) {
    const std::string n = std::to_string(i);
    text += n + "," + (i % 7 == 0 ? "" : n + ".25") + (i % 4 == 0 ? "," : ",m") + ",\"w\"\"" +
            (i % 3 == 0 ? "\r\n" : "") + n + "\"," +
            (i == 250 ? "x" + n : std::string("0") + (i % 2 == 0 ? ".50" : "")) + "\n";
  }
  const std::string path = write_file(text);
  const Table whole = read_csv(path);
  CHECK(whole.type("late").is_text());
  CHECK(whole.text("late")[0] == "0.50");
  CHECK(whole.missing("mark").sum().item<int>() == 75);
  for (std::size_t block : {8u, 9u, 64u, 1000u})
    for (std::int64_t restart : {0, 200, 1000}) {
      ikebana::detail::CsvReader reader(path, {}, {.block = block, .rows_to_restart = restart});
      const Table table = reader.read();
      CHECK(same_bits(table["id"], whole["id"]));
      CHECK(same_bits(table["value"], whole["value"]));
      CHECK(table.text("word") == whole.text("word"));
      CHECK(table.text("late") == whole.text("late"));
      CHECK(same_bits(table.categories("mark").codes, whole.categories("mark").codes));
    }
}

TEST_CASE("csv: missing values are NaN, empty texts and code -1") {
  const Table table = read("n,x,flag,word,none\n1,NA,True,,\n,2.5,,a,\n3,null,False,NaN,NA\n");
  CHECK(is(table["n"], at::kDouble, {1, nan, 3}));
  CHECK(is(table["x"], at::kDouble, {nan, 2.5, nan}));
  CHECK(is(table["flag"], at::kDouble, {1, nan, 0}));
  CHECK(is(table["none"], at::kDouble, {nan, nan, nan}));
  CHECK(table.text("word") == std::vector<std::string>{"", "a", ""});
  CHECK(is(table.missing("word"), at::kBool, {1, 0, 1}));
  CHECK(is(table.missing("n"), at::kBool, {0, 1, 0}));
  CHECK(is(table.categories("word").codes, at::kLong, {-1, 0, -1}));

  const Table own =
      read("a,b\n-999,NA\n4,-\n-999.0,x\n", {.na_values = {"-999", "-"}, .keep_default_na = false});
  CHECK(is(own["a"], at::kDouble, {nan, 4, nan}));
  CHECK(own.text("b") == std::vector<std::string>{"NA", "", "x"});
  CHECK(is(read("a\n\"\"\nTrue\n")["a"], at::kDouble, {nan, 1}));
}

TEST_CASE("csv: numbers are exact, and texts that are no plain numbers stay texts") {
  const Table table = read(
      "n,x\n9007199254740993,0.1\n-9223372036854775808,1.7976931348623157e308\n"
      "9223372036854775807,4.9406564584124654e-324\n+5,-.5\n 12 ,1.\n"
      "0,123456789012345678901.5\n-0,1e-400\n");
  CHECK(same_bits(table["n"], at::tensor(std::vector<std::int64_t>{
                                  9007199254740993, std::numeric_limits<std::int64_t>::min(),
                                  std::numeric_limits<std::int64_t>::max(), 5, 12, 0, 0})));
  CHECK(is(table["x"], at::kDouble,
           {0.1, 1.7976931348623157e308, 5e-324, -0.5, 1, 123456789012345678901.5, 0}));
  CHECK(is(read("a\n1\ninf\n-Infinity\n")["a"], at::kDouble, {1, HUGE_VAL, -HUGE_VAL}));
  CHECK(is(read("a;b\n1,5;2\n-0,25;3\n", {.sep = ';', .decimal = ','})["a"], at::kDouble,
           {1.5, -0.25}));
  for (const char* text : {"0x10", "1_000", "1,5", "12a", "1e", "e5", "--1", ".", "+", "1 2",
                           "1e400", "01234", "18446744073709551616", "1.2.3", "NAN", "true"}) {
    const Table other = read("a;b\n7;1\n" + std::string(text) + ";2\n", {.sep = ';'});
    CHECK(other.text("a") == std::vector<std::string>{"7", text});
    const std::string error = message_of<BadValue>([&] { other["a"]; });
    CHECK(contains(error, "line 3 has \"" + std::string(text) + "\""));
  }
}

TEST_CASE("csv: types are given, and a value that does not fit is an error") {
  const CsvOptions options{.dtype = {{"zip", ColumnType::text()},
                                     {"n", at::kInt},
                                     {"x", at::kFloat},
                                     {"b", at::kBool},
                                     {"u", at::kByte}}};
  const Table table = read("zip,n,x,b,u\n01234,007,0.1,1,255\n", options);
  CHECK(table.text("zip")[0] == "01234");
  CHECK(is(table["n"], at::kInt, {7}));
  CHECK(same_bits(table["x"], at::tensor({0.1f})));
  CHECK(is(table["b"], at::kBool, {1}));
  CHECK(is(table["u"], at::kByte, {255}));
  const std::pair<const char*, const char*> errors[] = {
      {"1,2147483648,0,1,1", "column `n`: \"2147483648\" is beyond the range of its type"},
      {"1,-2147483649,0,1,1", "beyond the range of its type"},
      {"1,2.5,0,1,1", "\"2.5\" is no integer; its given type is Int"},
      {"1,99999999999999999999,0,1,1", "an integer beyond 64 bits"},
      {"1,1,1e39,1,1", "column `x`: \"1e39\" is beyond the range of its type"},
      {"1,1,1e309,1,1", "beyond the range of a double"},
      {"1,1,400000000000000000000000000000000000000,1,1", "beyond the range of its type"},
      {"1,1,\"12,5\",1,1", "column `x`: \"12,5\" is no number: if the comma is the decimal point"},
      {"1,1,True,1,1", "is no number"},
      {"1,1,0,2,1", "column `b`: \"2\" is no Bool"},
      {"1,1,0,1,-1", "column `u`: \"-1\" is beyond"},
      {"1,,0,1,1", "column `n`: the value is missing, and Int has no NaN"}};
  for (const auto& [row, part] : errors) {
    const std::string error =
        error_of("zip,n,x,b,u\n1,1,1,1,1\n" + std::string(row) + "\n", options);
    CHECK_MESSAGE(contains(error, part), error);
    CHECK(contains(error, ".csv, line 3, "));
  }
}

TEST_CASE("csv: integers that missing values would make inexact are an error") {
  const std::string text = "id\n1\nNA\n9007199254740993\n";
  CHECK(contains(error_of(text),
                 "column `id`: it has missing values, so that its integers would "
                 "become doubles, and 9007199254740993 in line 4 is no double"));
  CHECK(contains(error_of("id\n9007199254740993\nNA\n"), "9007199254740993 is no double"));
  CHECK(is(read(text, {.dtype = {{"id", at::kDouble}}})["id"], at::kDouble,
           {1, nan, 9007199254740992}));
  CHECK(is(read("id\n9007199254740992\n9007199254740994\nNA\n")["id"], at::kDouble,
           {9007199254740992, 9007199254740994, nan}));
}

TEST_CASE("csv: header, names, usecols, skiprows and nrows choose what is read") {
  const std::string text = "made by hand\n\n1,2,3\n4,5,6\n7,8,9\n";
  const Table plain = read(text, {.header = false, .skiprows = 1});
  CHECK(plain.names() == std::vector<std::string>{"0", "1", "2"});
  CHECK(is(plain["2"], at::kLong, {3, 6, 9}));
  const Table named =
      read(text, {.names = {"a", "b", "c"}, .usecols = {"c", "a"}, .skiprows = 1, .nrows = 2});
  CHECK(named.names() == std::vector<std::string>{"a", "c"});
  CHECK(is(named["c"], at::kLong, {3, 6}));
  CHECK(read(text, {.header = true, .names = {"a", "b", "c"}, .skiprows = 1}).rows() == 2);
  CHECK(read(text, {.skiprows = 1, .nrows = 0}).rows() == 0);
  CHECK(read("a,,a,a\n1,2,3,4\n").names() ==
        std::vector<std::string>{"a", "Unnamed: 1", "a.1", "a.2"});
  CHECK(read("a\n").rows() == 0);
  CHECK(read("'a,b'|\"c\n1|2\n", {.sep = '|', .quotechar = '\''}).names() ==
        std::vector<std::string>{"a,b", "\"c"});
  CHECK(read("a,b\n\"x,y\"\n", {.quotechar = '\0'}).text("a")[0] == "\"x");
}

TEST_CASE("csv: a line with too few or too many fields is an error with its line") {
  CHECK(contains(error_of("a,b\n1,\"x\n\ny\"\n\n1,2,3\n"),
                 ".csv, line 6 has 3 fields, and the table has 2 columns. Quote fields"));
  CHECK(contains(error_of("a,b\r\n1,2\r\n1\r\n"), "line 3 has 1 field, and"));
  CHECK(contains(error_of("a\r1,2\r"), "line 2 has 2 fields, and the table has 1 column."));
  CHECK(contains(error_of("a,b\n1,2,\"x\n"), "a quote that opens here never closes"));
}

TEST_CASE("csv: a quote that never closes, and text behind one that does, are errors") {
  CHECK(
      contains(error_of("a,b\n1,2\n3,\"x\n4,5\n"), "line 3: a quote that opens here never closes"));
  CHECK(contains(error_of("a,\"b\n1,2\n"), "line 1: a quote that opens here never closes"));
  CHECK(contains(error_of("a,b\n1,\"x\"y\n"),
                 "line 2: text follows the closing quote of a field, \"x\""));
  const std::string path = write_file("a\n\"" + std::string(500, 'x') + "\"\n");
  ikebana::detail::CsvReader reader(path, {}, {.block = 16, .max_row = 100});
  CHECK(contains(message_of<BadFile>([&] { reader.read(); }),
                 "line 2: a row that begins here is longer than 100 bytes"));
}

TEST_CASE("csv: other formats, empty files and wrong options are errors") {
  CHECK(contains(error_of(""), "has no line, not even one of names"));
  CHECK(contains(error_of("a\n", {.skiprows = 5}), "has no line after those that are skipped"));
  const std::string utf16(
      "\xff\xfe"
      "a\0",
      4);
  CHECK(contains(error_of(utf16), "begins as a file of UTF-16"));
  CHECK(contains(error_of("\x1f\x8b\b"), "begins as a file of gzip"));
  CHECK(contains(error_of("PK\x03\x04"), "begins as a file of zip"));
  CHECK(contains(error_of("PAR1"), "begins as a file of Parquet"));
  CHECK(contains(error_of("a\n1\n", {.sep = '\n'}), "are no line breaks and no digits"));
  CHECK(contains(error_of("a\n1\n", {.decimal = ','}), "must differ"));
  CHECK(contains(error_of("a\n1\n", {.nrows = -1}), "must be 0 or more"));
  CHECK(contains(error_of("a\n1\n", {.dtype = {{"a", at::kComplexFloat}}}), "dtype of column `a`"));
  CHECK(contains(error_of("a,b\n1,2\n", {.usecols = {"B"}}), "has no column of `usecols`"));
  CHECK(
      contains(error_of("a,b\n1,2\n", {.dtype = {{"c", at::kLong}}}), "has no column of `dtype`"));
  CHECK(contains(error_of("a,b\n1,2\n", {.names = {"x"}}), "1 names are given, and"));
  CHECK(contains(message_of<FileFailed>([] { read_csv("/nowhere/a.csv"); }), "/nowhere/a.csv"));
}

TEST_CASE("csv: changed bytes give a table or an error, and never a crash") {
  std::string text = "a,\"b \"\"x\"\"\",c\r\n1,2.5,\"red, or\nblue\"\n-2,,NA\n33,1e5,True\n";
  std::mt19937 random(1);
  int errors = 0;
  for (int i = 0; i < (is_thorough() ? 20000 : 400); ++i) {
    std::string changed = text;
    for (unsigned n = random() % 4; n > 0; --n) switch (random() % 3) {
        case 0:
          changed[random() % changed.size()] = "\",\n\r\0 5x-.\xff"[random() % 11];
          break;
        case 1:
          changed.insert(random() % changed.size(), 1, "\",\n\r5"[random() % 5]);
          break;
        default:
          changed.erase(random() % changed.size(), 1 + random() % 3);
      }
    const std::string path = write_file(changed);
    auto read_by = [&](std::size_t block) -> std::string {
      try {
        return ikebana::detail::CsvReader(path, {}, {.block = block}).read().describe();
      } catch (const Error& error) {
        return error.what();
      }
    };
    const std::string whole = read_by(1 << 16);
    errors += !contains(whole, " rows");
    CHECK_MESSAGE(read_by(8) == whole, changed);
  }
  CHECK(errors > 50);
}

}  // namespace test::files::csv
