// Compiles and runs the code that docs/tables.md shows.
#include "test.hpp"

#include <filesystem>
#include <fstream>
#include <ikebana/files/csv.hpp>
#include <ikebana/modules/standard_scaler.hpp>

using namespace ikebana;

namespace test::docs_tables {

std::string written(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::temp_directory_path() / ("ikebana-" + name);
  std::ofstream(path) << text;
  return path;
}

TEST_CASE("tables.md: a csv file becomes tensors, texts and categories") {
  const std::string path = written(
      "house.csv", "id,price,area,sold,colour\n7,12.5,,True,red\n8,1e3,70,False,\"light, grey\"\n");
  Table table = read_csv(path);
  at::Tensor price = table["price"];                           // (rows), Double
  at::Tensor x = table.tensor({"price", "area"}, at::kFloat);  // (rows, 2), NaN if missing
  Categories colour = table.categories("colour");              // codes Long, and names
  std::vector<std::string> texts = table.text("colour");
  CHECK(price.sizes() == at::IntArrayRef{2});
  CHECK(x.isnan().sum().item<int>() == 1);
  CHECK(colour.names.size() == 2);
  CHECK(texts[1] == "light, grey");

  Table other = read_csv(
      path,
      {.usecols = {"id", "area"}, .dtype = {{"id", ColumnType::text()}}, .na_values = {"-999"}});
  CHECK(other.text("id")[0] == "7");
  Categories same = table.categories("colour", {.names = colour.names});
  CHECK(same_bits(same.codes, colour.codes));
}

TEST_CASE("tables.md: a scaler is fitted on training rows, and part of the model") {
  at::Tensor x = at::rand({20, 2});
  x[3][1] = std::numeric_limits<float>::quiet_NaN();
  at::Tensor training_rows = x.slice(0, 0, 16);

  auto scaler = modules::StandardScaler::fit(training_rows);
  at::Tensor inputs = scaler->transform(x).nan_to_num(0);  // a missing value becomes the mean

  torch::nn::Sequential model(scaler, torch::nn::Linear(2, 1));
  CHECK(inputs[3][1].item<float>() == 0);
  CHECK(model->buffers().size() == 3);
}

TEST_CASE("tables.md: an error names file, line, column and value") {
  const std::string path = written("house.csv", "area,price\n70,12.5\n80,\"12,5\"\n");
  const std::string error = message_of([&] { read_csv(path, {.dtype = {{"price", at::kFloat}}}); });
  CHECK(contains(error,
                 "house.csv, line 3, column `price`: \"12,5\" is no number: if the comma is the "
                 "decimal point, read the file with `decimal` ','; its given type is Float."));
}

}  // namespace test::docs_tables
