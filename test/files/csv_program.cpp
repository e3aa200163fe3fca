// Reads all csv files of a folder and writes what it read beside them, for oracle_csv.py.
#include <ikebana/files/csv.hpp>
#include <ikebana/modules/standard_scaler.hpp>
#include <ikebana/state/files/json.hpp>

#include <fstream>

using namespace ikebana;

namespace {

void write(const Table& table, std::ostream& out) {
  for (const auto& name : table.names()) {
    const bool is_text = table.type(name).is_text();
    out << Json::quoted(name) << '\n'
        << (is_text ? "text" : c10::toString(table.type(name).scalar_type)) << '\n';
    const at::Tensor missing = table.missing(name);
    const auto texts = is_text ? table.text(name) : std::vector<std::string>();
    for (std::int64_t row = 0; row < table.rows(); ++row) {
      if (missing[row].item<bool>()) out << "missing\n";
      else if (is_text) out << Json::quoted(texts[std::size_t(row)]) << '\n';
      else if (table[name].is_floating_point())
        out << ikebana::detail::exact_text(table[name][row].item<double>()) << '\n';
      else out << table[name][row].item<std::int64_t>() << '\n';
    }
    out << "end\n";
  }
}

/// Fits a scaler on all columns.
void write_scaler(const Table& table, std::ostream& out) {
  auto scaler = modules::StandardScaler::fit(table.tensor(table.names(), at::kDouble));
  for (const at::Tensor& values : {scaler->mean, scaler->scale})
    for (std::int64_t i = 0; i < values.numel(); ++i)
      out << ikebana::detail::exact_text(values[i].item<double>()) << '\n';
}

}  // namespace

int main(int, char** arguments) {
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) {
    if (entry.path().extension() != ".csv") continue;
    std::ofstream out(entry.path().string() + ".out");
    try {
      const Table table = read_csv(entry.path());
      if (entry.path().stem().string().starts_with("scale")) write_scaler(table, out);
      else write(table, out);
    } catch (const Error& error) {
      out << "error " << error.what() << '\n';
    }
  }
}
