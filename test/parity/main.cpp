// parity FOLDER [WORD]... trains the rows whose names begin with a word, or all rows, writes for
// each the file FOLDER/ROW.safetensors that Python must agree with, and prints the row's name.
// parity alone prints the table of rows as docs/parity.md shows it.
#include <algorithm>
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

using Words = std::vector<std::string>;

bool chosen(const Words& words, const std::string& row) {
  auto begins = [&](const std::string& word) { return row.starts_with(word); };
  return words.empty() || std::any_of(words.begin(), words.end(), begins);
}

void train(const std::vector<parity::Row>& rows, const std::string& folder, const Words& words) {
  std::size_t trained = 0;
  for (const auto& row : rows) {
    if (!chosen(words, row.name)) continue;
    row.train(folder + "/" + row.name + ".safetensors");
    std::cout << row.name << std::endl;  // at once: if the next row crashes, this was the last
    ++trained;
  }
  if (trained == 0) throw std::runtime_error("parity: no row has such a name");
}

}  // namespace

int main(int count, char** words) {
  try {
    const auto rows = parity::all_rows();
    if (count < 2) print(rows);
    else train(rows, words[1], {words + 2, words + count});
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
