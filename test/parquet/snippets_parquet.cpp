// The code of docs/tables.md that needs ikebana::parquet; parquet_program runs it.
#include <ikebana/data/loader.hpp>
#include <ikebana/parquet.hpp>

using namespace ikebana;

std::int64_t run_snippets(const std::string& file, const std::string& folder);

std::int64_t run_snippets(const std::string& file, const std::string& folder) {
  Table table = read_parquet(file, {.columns = {"price", "city"}});

  auto tokens = [](const ArrowRow& row) {
    return std::pair(row.tensor("input_ids"), row.integer("label"));
  };
  ArrowTable rows(folder, tokens);  // the folder of save_to_disk, or .arrow files
  DataLoader loader{rows, {.batch_size = 2, .shuffle = true, .num_workers = 2}};
  std::int64_t count = 0;
  for (auto& [input, label] : loader) count += input.size(1) * label.size(0);
  return count + table.rows();
}
