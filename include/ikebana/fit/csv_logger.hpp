#pragma once
// Logs a training to a CSV file.
#include <ikebana/fit/line_log.hpp>
#include <ikebana/fit/log_columns.hpp>

namespace ikebana {

/// The rows that a log of one kind of row has.
enum class LogRows {
  steps,        ///< a row per logged step
  validations,  ///< a row per validation by `validate_every`
  epochs        ///< a row per epoch
};

/// Writes one line of comma-separated values per step, validation or epoch, with the columns of
/// `columns_of`: `fit(loader, {.loggers = {CSVLogger("steps.csv")}})`, or `log(report)` in your own
/// loop. The first line names the columns; every row must have the same ones. Numbers read back bit
/// for bit. Each line is given to the system at once. A resumed `fit` goes on with the file: rows
/// of steps that are made again are removed. A new training gives a file with rows the suffix
/// `.former`, and begins another one. Copies of a logger write to the same file. Reading a report
/// waits for the device. Throws Error for other columns, and FileFailed if it cannot write.
class CSVLogger {
 public:
  /// A line: each column with its name.
  using Row = LogRow;

  /// Takes the path, and which of the rows `fit` writes to it. Throws FileFailed if it cannot be
  /// written, or is not a regular file, such as a device. The file changes with the first row, or
  /// in `begin`.
  explicit CSVLogger(std::string path, LogRows rows = LogRows::steps);

  /// Begins a file; with `start.resumed` keeps the rows before `start`. Rows without the columns
  /// `step` and `epoch` are all kept. `fit` calls it; call it in your own loop after
  /// `trainer.load`. Throws BadFile for a file that is not a log, and FileFailed if another logger
  /// writes to it.
  void begin(const LogStart& start);
  /// Writes a step, if the logger has rows of steps.
  void log(const Report& report) const;
  /// Writes a validation, if the logger has rows of validations.
  void log(const Validation& validation) const;
  /// Writes an epoch, if the logger has rows of epochs.
  void log(const Epoch& epoch) const;

  /// Writes a step, in a loop of your own or as `on_step`.
  void operator()(const Report& report) const;
  /// Writes a validation, in a loop of your own or as `on_validation`.
  void operator()(const Validation& validation) const;
  /// Writes an epoch, in a loop of your own or as `on_epoch`.
  void operator()(const Epoch& epoch) const;
  /// Writes any columns, which are pairs of name and value.
  void operator()(const Row& row) const;

 private:
  struct File {
    explicit File(std::string path) : log(std::move(path)) {}
    detail::LineLog log;
    std::string columns;  // the first line
  };

  /// Returns the lines of a file that come before `start`, and notes its columns.
  std::string kept(const std::string& text, const LogStart& start) const;
  /// Returns the shortest text that reads back as the same value.
  static std::string text(double value);

  LogRows rows_;
  std::shared_ptr<File> file_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/csv_logger.ipp>
#endif
