// Reads Parquet and Arrow files for oracle_parquet.py. Each line of the input is `parquet FILE
// COLUMN...` or `arrow PATH COLUMN...`, with tabs between; the answer is the columns' types and
// values, or the error, and a line `end`.
#include <ikebana/data/loader.hpp>
#include <ikebana/parquet.hpp>
#include <ikebana/state/files/json.hpp>

#include <iostream>
#include <sstream>

using namespace ikebana;

std::int64_t run_snippets(const std::string& file, const std::string& folder);

namespace {

std::string text_of(const at::Tensor& value) {
  std::string text;
  const at::Tensor flat = value.flatten();
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    text += (i == 0 ? "" : " ") + (value.is_floating_point()
                                       ? ikebana::detail::exact_text(flat[i].item<double>())
                                       : std::to_string(flat[i].item<std::int64_t>()));
  return (value.dim() == 0 ? "" : "[") + text + (value.dim() == 0 ? "" : "]");
}

void show_parquet(const std::string& path, const std::vector<std::string>& columns) {
  const Table table = read_parquet(path, {.columns = columns});
  for (const auto& name : table.names()) {
    const bool is_text = table.type(name).is_text();
    std::cout << name << ' ' << (is_text ? "text" : c10::toString(table.type(name).scalar_type));
    const at::Tensor missing = table.missing(name);
    for (std::int64_t row = 0; row < table.rows(); ++row)
      std::cout << ' '
                << (missing[row].item<bool>() ? "missing"
                    : is_text                 ? Json::quoted(table.text(name)[std::size_t(row)])
                                              : text_of(table[name][row]));
    std::cout << '\n';
  }
}

void show_arrow(const std::string& path, const std::vector<std::string>& columns) {
  const ArrowTable table(path, [&](const ArrowRow& row) {
    std::string text = std::to_string(row.index());
    for (const auto& column : columns) {
      if (row.missing(column)) text += " missing";
      else if (column.starts_with("text")) text += " " + Json::quoted(row.text(column));
      else if (column.starts_with("id")) text += " " + std::to_string(row.integer(column));
      else text += " " + text_of(row.tensor(column));
    }
    return text;
  });
  for (std::int64_t i = 0; i < table.size(); ++i) std::cout << table.get(i) << '\n';
  DataLoader loader{table, {.batch_size = 3, .num_workers = 2}};
  std::int64_t row = 0;
  for (auto& batch : loader)
    for (const std::string& text : batch)
      if (text != table.get(row++)) std::cout << "the loader's row " << row - 1 << " differs\n";
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, path;
    std::getline(words, what, '\t'), std::getline(words, path, '\t');
    std::vector<std::string> columns;
    for (std::string column; std::getline(words, column, '\t');) columns.push_back(column);
    try {
      if (what == "docs") std::cout << run_snippets(path, columns.at(0)) << '\n';
      else if (what == "parquet") show_parquet(path, columns);
      else show_arrow(path, columns);
    } catch (const Error& error) {
      std::cout << "error " << error.what() << '\n';
    }
    std::cout << "end" << std::endl;
  }
}
