// Examples of the reference: files of Parquet and Arrow. Built where Arrow is.
#include <ikebana/parquet.hpp>

#include "images/temporary.hpp"
#include "policies.hpp"

namespace test::reference::of_parquet {

using Folder = test::images::Folder;

// example: read_parquet, ParquetOptions
at::Tensor read_houses(const std::filesystem::path& path) {
  ParquetOptions options{.columns = {"price", "city"}};  // others are not read
  Table table = read_parquet(path, options);
  at::Tensor city = at::one_hot(table.categories("city").codes);
  return at::cat({table.tensor({"price"}), city.to(at::kFloat)}, 1);
}
// end

// example: ArrowTable, ArrowRow
auto open_sentences(const std::filesystem::path& folder) {  // from `save_to_disk`
  auto sample = [](const ArrowRow& row) {
    return std::pair(row.tensor("input_ids"), row.integer("label"));
  };
  ArrowTable rows(folder, sample);
  return DataLoader{rows, {.batch_size = 32, .shuffle = true, .num_workers = 2}};
}
// end

TEST_CASE("reference: a file that is no Parquet file, and a folder without a dataset") {
  const Folder temporary("reference_parquet");
  const auto path = temporary.write("houses.parquet", "price,city\n");
  CHECK(contains(message_of<BadFile>([&] { read_houses(path); }), "houses.parquet"));
  CHECK(!message_of<Error>([&] { open_sentences(temporary.root); }).empty());
}

}  // namespace test::reference::of_parquet
