// parity ROW FILE trains a row and writes what Python must agree with; parity alone prints the
// table of rows as docs/parity.md shows it.
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
    if (count == 3) train(parity::all_rows(), words[1], words[2]);
    else print(parity::all_rows());
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
