// parity ROW FILE [ROW FILE]... trains rows and writes what Python must agree with; parity alone
// prints the table of rows as docs/parity.md shows it.
#include <iostream>

#include "table.hpp"

namespace {

std::string agreement(const parity::Agreement& a) {
  if (!a.twin.empty()) return "same bits if Python also uses " + a.twin;
  if (a.losses == 0) return "same bits";
  return "losses within " + parity::json(a.losses) + ", weights " + parity::json(a.weights) + ": " +
         a.reason;
}

void print(const std::vector<parity::Row>& rows) {
  for (const auto& row : rows)
    std::cout << "| `" << row.name << "` | `" << row.recipe << "` | " << agreement(row.agreement)
              << " |\n";
}

void train(const std::vector<parity::Row>& rows, const std::string& name, const std::string& path) {
  for (const auto& row : rows)
    if (row.name == name) return row.train(path);
  throw std::runtime_error("parity: there is no row " + name);
}

}  // namespace

int main(int count, char** words) {
  try {
    const auto rows = parity::all_rows();
    if (count < 3) print(rows);
    for (int i = 1; i + 1 < count; i += 2) train(rows, words[i], words[i + 1]);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
