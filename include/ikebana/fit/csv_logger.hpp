#pragma once
// A run as a table in a file.
#include <charconv>
#include <fstream>
#include <ikebana/fit/fit.hpp>

namespace ikebana {

/// Writes one line of comma-separated values a step or an epoch:
/// `fit(loader, {.on_step = CSVLogger("steps.csv")})`, or `log(report)` in a loop of one's own. The
/// first line names the columns, and every later one must have the same. Numbers read back to the
/// bit. A file of that name is replaced; each line is in it at once; copies write to the same file.
/// Reading a report waits for the device. Throws Error where it cannot write.
class CSVLogger {
 public:
  using Row = std::vector<std::pair<std::string, double>>;

  explicit CSVLogger(std::string path) : file_(std::make_shared<File>()) {
    file_->path = std::move(path);
    file_->out.open(file_->path, std::ios::trunc);
    check_written();
  }

  /// step, loss, each named term, lr; grad_norm and peak_bytes where a policy tells them; skipped
  /// (0 or 1), seconds.
  void operator()(const Report& report) const {
    Row row = {{"step", double(report.step)}, {"loss", report.loss()}};
    for (const auto& part : report.value.parts)
      if (!part.name.empty()) row.emplace_back(part.name, report.term(part.name));
    row.emplace_back("lr", report.learning_rate);
    if (auto norm = report.grad_norm()) row.emplace_back("grad_norm", *norm);
    if (report.peak_bytes) row.emplace_back("peak_bytes", double(*report.peak_bytes));
    row.emplace_back("skipped", report.skipped());
    row.emplace_back("seconds", report.seconds);
    (*this)(row);
  }
  /// epoch, steps, loss, seconds; val_loss and val_<metric> where there is a validation.
  void operator()(const Epoch& epoch) const {
    Row row = {{"epoch", double(epoch.epoch)},
               {"steps", double(epoch.steps)},
               {"loss", epoch.loss},
               {"seconds", epoch.seconds}};
    if (epoch.validation) {
      row.emplace_back("val_loss", epoch.validation->loss);
      for (const auto& [name, value] : epoch.validation->metrics)
        row.emplace_back("val_" + name, value);
    }
    (*this)(row);
  }
  /// Any numbers, each with the name of its column.
  void operator()(const Row& row) const {
    std::string names, values;
    for (const auto& [name, value] : row) {
      names += (names.empty() ? "" : ",") + quoted(name);
      values += (values.empty() ? "" : ",") + text(value);
    }
    if (file_->columns.empty()) file_->out << (file_->columns = names) << '\n';
    if (file_->columns != names)
      throw Error("CSVLogger: `" + file_->path + "` has the columns " + file_->columns +
                  ", and this row has " + names + ". Use one logger for each kind of row.");
    file_->out << values << std::endl;
    check_written();
  }

 private:
  struct File {
    std::string path, columns;
    std::ofstream out;
  };

  void check_written() const {
    if (!file_->out)
      throw Error("CSVLogger: cannot write to `" + file_->path +
                  "`. Its folder must exist, and have room.");
  }
  /// The shortest text that reads back as the same number.
  static std::string text(double value) {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
  }
  static std::string quoted(const std::string& name) {
    if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
    std::string safe = "\"";
    for (char c : name) safe += c == '"' ? "\"\"" : std::string(1, c);
    return safe + "\"";
  }

  std::shared_ptr<File> file_;
};

}  // namespace ikebana
