// parity FOLDER [--device DEVICE] [--after ROW] [WORD]... trains the rows whose names begin with a
// word, or all rows; with --after only the rows that follow that row. For each it writes the file
// FOLDER/ROW.safetensors, with which Python must agree. It prints a line per row: its name, or
// `ROW: error`. It exits with 1 if rows failed, 2 if no row can be trained, and 3 if an error has
// left the device unusable, so that a new process can continue. parity alone prints the table of
// rows as docs/parity.md shows it, and parity --models FOLDER writes what models.py compares.
#include <algorithm>
#include <iostream>

#include "settings.hpp"
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

struct Command {
  std::string folder, after = {};
  c10::Device device = at::kCPU;
  Words words = {};
};

Command command_of(const Words& arguments) {
  Command command{.folder = arguments.at(0)};
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--device") command.device = c10::Device(arguments.at(++i));
    else if (arguments[i] == "--after") command.after = arguments.at(++i);
    else command.words.push_back(arguments[i]);
  }
  return command;
}

std::vector<parity::Row> chosen(const std::vector<parity::Row>& all, const Command& command) {
  auto is_last = [&](const parity::Row& row) { return row.name == command.after; };
  auto first = command.after.empty() ? all.begin() : std::find_if(all.begin(), all.end(), is_last);
  if (first == all.end()) throw std::runtime_error("parity: no row has the name " + command.after);
  std::vector<parity::Row> rows;
  std::copy_if(command.after.empty() ? first : first + 1, all.end(), std::back_inserter(rows),
               [&](const parity::Row& row) {
                 auto begins = [&](const std::string& word) { return row.name.starts_with(word); };
                 return command.words.empty() ||
                        std::any_of(command.words.begin(), command.words.end(), begins);
               });
  if (rows.empty() && command.after.empty())
    throw std::runtime_error("parity: no row has such a name");
  return rows;
}

/// Each line is printed at once. If a row ends the process, the line before names the last good
/// one.
int train(const std::vector<parity::Row>& rows, const Command& command) {
  int status = 0;
  for (const auto& row : rows) {
    try {
      row.train(command.folder + "/" + row.name + ".safetensors", command.device);
      std::cout << row.name << std::endl;
    } catch (const std::exception& e) {
      std::cout << row.name << ": " << parity::first_line(e) << std::endl;
      status = 1;
      if (!parity::is_usable(command.device)) return 3;
    }
  }
  return status;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count < 2) return print(parity::all_rows()), 0;
    if (std::string(words[1]) == "--models" && count == 3) return parity::write_models(words[2]), 0;
    const auto command = command_of({words + 1, words + count});
    parity::prepare(command.device);
    return train(chosen(parity::all_rows(), command), command);
  } catch (const std::exception& e) {
    std::cerr << parity::first_line(e) << '\n';
    return 2;
  }
}
