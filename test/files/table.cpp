// Tables give columns as tensors, texts and categories, and StandardScaler normalises them.
#include <ikebana/modules/standard_scaler.hpp>
#include <ikebana/state/save_and_load.hpp>
#include "csv_files.hpp"

using namespace ikebana;

namespace test::files::table {

using modules::StandardScaler;

TEST_CASE("table: categories are numbered in the order of names, of appearance, or as given") {
  const Table table = read("c,n\nred,30\nblue,4\n,4\nred,-1\ngreen,30\n");
  const auto sorted = table.categories("c");
  CHECK(sorted.names == std::vector<std::string>{"blue", "green", "red"});
  CHECK(same_bits(sorted.codes, at::tensor(std::vector<std::int64_t>{2, 0, -1, 2, 1})));
  const auto seen = table.categories("c", {.sort = false});
  CHECK(seen.names == std::vector<std::string>{"red", "blue", "green"});
  CHECK(same_bits(seen.codes, at::tensor(std::vector<std::int64_t>{0, 1, -1, 0, 2})));
  const auto numbers = table.categories("n");  // by size, not as texts
  CHECK(numbers.names == std::vector<std::string>{"-1", "4", "30"});
  CHECK(same_bits(numbers.codes, at::tensor(std::vector<std::int64_t>{2, 1, 1, 0, 2})));
  CHECK(table.categories("n", {.sort = false}).names == std::vector<std::string>{"30", "4", "-1"});

  const Table later = read("c\ngreen\nred\n");
  CHECK(same_bits(later.categories("c", {.names = sorted.names}).codes,
                  at::tensor(std::vector<std::int64_t>{1, 2})));
  CHECK(contains(message_of<BadValue>([&] { later.categories("c", {.names = {"red"}}); }),
                 "column `c`: row 0 (counted from 0) is \"green\", which is none of the 1 given"));
  CHECK(contains(message_of<BadValue>([&] { table.categories("n", {.names = {"4", "30"}}); }),
                 "row 3 (counted from 0) is -1"));
  CHECK(contains(message_of<BadValue>([&] { later.categories("c", {.names = {"red", "red"}}); }),
                 "two of the given categories are \"red\""));
}

TEST_CASE("table: a wrong name, and a column of another type, are errors that say what to do") {
  const Table table = read("price,city,area\n12,Rome,1.5\n\"12,5\",Oslo,\n");
  auto error = [&](auto f) { return message_of<BadValue>(f); };
  CHECK(contains(error([&] { table["prize"]; }), "the nearest are `price`"));
  CHECK(contains(
      error([&] { table["price"]; }),
      "column `price`: it is text, because line 3 has \"12,5\", which is no number: if the "
      "comma is the decimal point"));
  CHECK(contains(error([&] { table.text("area"); }), "it is Double, and its texts were not kept"));
  CHECK(contains(error([&] { table.categories("area"); }), "categories are texts or integers"));
  CHECK(contains(error([&] { table.tensor({"area"}, at::kLong); }),
                 "column `area`: row 0 (counted from 0) is 1.5, which Long cannot hold"));
  CHECK(contains(table.describe(), "2 rows\n  price  text (line 3 has"));
  CHECK(contains(table.describe(), "city  text\n  area  Double, 1 missing"));
}

TEST_CASE("table: tensor refuses values that its dtype cannot hold") {
  const Table table = read("a,b,c\n1,300,1e300\n0,2,\n");
  CHECK(contains(message_of<BadValue>([&] { table.tensor({"a", "b"}, at::kByte); }),
                 "row 0 (counted from 0) is 300, which Byte"));
  CHECK(contains(message_of<BadValue>([&] { table.tensor({"c"}); }),
                 "1e+300, which Float cannot hold"));
  CHECK(contains(message_of<BadValue>([&] { table.tensor({"b"}, at::kBool); }),
                 "which Bool cannot hold"));
  CHECK(table.tensor({"a"}, at::kBool).sum().item<int>() == 1);
  CHECK(table.tensor({"a", "c"}, at::kDouble)[1][1].isnan().item<bool>());
  CHECK(table.tensor({}).sizes() == at::IntArrayRef{2, 0});
}

TEST_CASE("table: columns of different lengths and equal names are errors") {
  auto column = [](const char* name, std::int64_t rows) {
    return ikebana::detail::TableColumn{name, at::zeros({rows}), {}};
  };
  CHECK(contains(message_of<BadFile>([&] { Table("f", {column("a", 2), column("b", 3)}); }),
                 "f: column `b` has 3 rows, and the first column has 2"));
  CHECK(contains(message_of<BadFile>([&] { Table("f", {column("a", 2), column("a", 2)}); }),
                 "two columns are named `a`"));
}

TEST_CASE("scaler: it is fitted on given rows, ignores NaN, and leaves constant columns") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor x =
      at::tensor({1.0, 5.0, 1e9, 3.0, 5.0, 1e9 + 1, nan, 5.0, 1e9 + 2, 8.0, 5.0, 1e9 + 3},
                 at::kDouble)
          .view({4, 3});
  auto scaler = StandardScaler::fit(x);
  CHECK(same_bits(scaler->mean, at::tensor({4.0, 5.0, 1e9 + 1.5}, at::kDouble)));
  CHECK(at::allclose(scaler->scale, at::tensor({26.0 / 3, 1.0, 1.25}, at::kDouble).sqrt(), 1e-15));
  CHECK(scaler->scale[1].item<double>() == 1);
  CHECK(same_bits(scaler->n_samples_seen, at::tensor(std::vector<std::int64_t>{3, 4, 4})));
  const at::Tensor y = scaler->transform(x);
  CHECK(y[2][0].isnan().item<bool>());
  CHECK(at::allclose(scaler->inverse_transform(y), x, 1e-15, 0, /*equal_nan=*/true));
  CHECK(scaler->transform(x.to(at::kFloat)).dtype() == at::kFloat);
  CHECK(scaler->transform(at::ones({2, 5, 3}, at::kLong)).dtype() == at::kFloat);
  CHECK(scaler->forward(at::ones({3})).sizes() == at::IntArrayRef{3});
  // A large mean costs no digits: computed as E[x^2] - mean^2 in FP32 it would be 0 or negative.
  const at::Tensor large = at::tensor({16777216.f, 16777218.f, 16777220.f}).view({3, 1});
  CHECK(std::abs(StandardScaler::fit(large)->scale.item<double>() - std::sqrt(8.0 / 3)) < 1e-12);
}

TEST_CASE("scaler: a loaded model has its numbers, and one without any is an error") {
  auto saved = StandardScaler::fit(at::arange(6.0).view({3, 2}));
  const std::string path = write_file("", "scaler.safetensors");
  save_weights(saved, path);
  StandardScaler loaded(2);
  CHECK(contains(message_of<BadModel>([&] { loaded->transform(at::ones({1, 2})); }),
                 "it was neither fitted nor loaded"));
  load_weights(loaded, path);
  CHECK(same_bits(loaded->transform(at::ones({1, 2})), saved->transform(at::ones({1, 2}))));
}

TEST_CASE("scaler: wrong rows are errors") {
  auto error = [](const at::Tensor& x) {
    return message_of<BadBatch>([&] { StandardScaler::fit(x); });
  };
  const double inf = std::numeric_limits<double>::infinity(), nan = inf - inf;
  CHECK(contains(error(at::ones({3})), "fit takes the training rows, (rows, 1), and was given"));
  CHECK(contains(error(at::ones({0, 3})), "with at least one row"));
  CHECK(contains(error(at::tensor({1.0, nan, 2.0, nan}).view({2, 2})),
                 "column 1 has no value but NaN"));
  CHECK(contains(error(at::tensor({1.0, inf}).view({1, 2})), "column 1 has an infinite value"));
  auto scaler = StandardScaler::fit(at::rand({4, 3}));
  CHECK(contains(message_of<BadBatch>([&] { scaler->transform(at::ones({4, 2})); }),
                 "transform takes (..., 3)"));
  CHECK(contains(message_of<BadBatch>([&] { scaler->inverse_transform({}); }),
                 "inverse_transform takes"));
  CHECK(contains(message_of<BadValue>([] { StandardScaler(0); }), "it has 0 columns"));
}

}  // namespace test::files::table
