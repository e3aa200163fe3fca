// Reads a csv file several times for read_csv.py. Prints the milliseconds of each, and writes the
// columns to a folder as raw elements, texts with a zero byte behind each.
#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <ikebana/files/csv.hpp>
#include <iostream>

using namespace ikebana;

int main(int count, char** arguments) {
  if (count < 3) return 1;
  at::set_num_threads(1);
  const std::filesystem::path folder = arguments[2];
  for (std::string line; std::getline(std::cin, line);) {  // one line for each reading
    const auto begin = std::chrono::steady_clock::now();
    const Table table = read_csv(arguments[1]);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::cout << took.count() << std::endl;
    if (line != "write") continue;
    for (const auto& name : table.names()) {
      std::ofstream out(folder / name, std::ios::binary);
      if (table.type(name).is_text()) {
        for (const auto& text : table.text(name)) out << text << '\0';
      } else {
        const at::Tensor values = table[name].contiguous();
        out.write(static_cast<const char*>(values.const_data_ptr()),
                  static_cast<std::streamsize>(values.nbytes()));
      }
    }
    std::cout << "written" << std::endl;
  }
}
