#pragma once
// A log of a training as a CSV file.
#include <charconv>
#include <fstream>
#include <ikebana/fit/fit.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana {

/// Writes one line of comma-separated values per step or epoch:
/// `fit(loader, {.on_step = CSVLogger("steps.csv")})`, or `log(report)` in your own loop. The first
/// line names the columns; every row must have the same ones. Numbers read back bit for bit. An
/// existing file is replaced. Each line is flushed. Copies of a logger write to the same file.
/// Reading a report waits for the device. Throws Error if it cannot write.
class CSVLogger {
 public:
  /// A line: each column with its name.
  using Row = std::vector<std::pair<std::string, double>>;

  /// Opens the file, which is replaced. Throws Error where it cannot be written, and FileFailed
  /// for what is no regular file, such as a device.
  explicit CSVLogger(std::string path) : file_(std::make_shared<File>()) {
    file_->path = std::move(path);
    detail::check_replaceable(file_->path);
    file_->out.open(file_->path, std::ios::trunc);
    check_written();
  }

  /// Columns: step, loss, each named term, lr; grad_norm and peak_bytes if a policy reports them;
  /// under Accumulate<Fit<>> microbatches and undone; skipped (0 or 1), seconds.
  void operator()(const Report& report) const {
    Row row = {{"step", double(report.step)}, {"loss", report.loss()}};
    for (const auto& part : report.value.parts)
      if (!part.name.empty()) row.emplace_back(part.name, report.term(part.name));
    row.emplace_back("lr", report.learning_rate);
    if (auto norm = report.grad_norm()) row.emplace_back("grad_norm", *norm);
    if (report.peak_bytes) row.emplace_back("peak_bytes", double(*report.peak_bytes));
    if (report.undone) {
      row.emplace_back("microbatches", double(report.microbatches));
      row.emplace_back("undone", double(*report.undone));
    }
    row.emplace_back("skipped", report.skipped());
    row.emplace_back("seconds", report.seconds);
    (*this)(row);
  }
  /// Columns: epoch, steps, loss, seconds; with validation also val_loss and val_<metric>.
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
  /// Any columns: pairs of name and value.
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
                  "`. Check that its folder exists and the disk has free space.");
  }
  /// The shortest text that reads back as the same value.
  static std::string text(double value) {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
  }
  static std::string quoted(const std::string& name) {
    if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
    std::string escaped = "\"";
    for (char c : name) escaped += c == '"' ? "\"\"" : std::string(1, c);
    return escaped + "\"";
  }

  std::shared_ptr<File> file_;
};

}  // namespace ikebana
