#pragma once
// Logs a training to a file of JSON objects.
#include <ikebana/fit/line_log.hpp>
#include <ikebana/fit/log_columns.hpp>

namespace ikebana {

/// Writes one JSON object per line: `{"kind":"step","step":0,"loss":2.5,...}` with the columns of
/// `columns_of`, for steps, validations (`"kind":"validation"`) and epochs (`"kind":"epoch"`) in
/// one file: `fit(loader, {.loggers = {JSONLinesLogger("run.jsonl")}})`, or `log(report)` in your
/// own loop. Numbers read back bit for bit. JSON has no NaN and no infinity: these are the texts
/// `"NaN"`, `"Infinity"` and `"-Infinity"`, which Python's `float` reads. Each line is given to the
/// system at once. A resumed `fit` goes on with the file, and a new training gives one with rows
/// the suffix `.former`, as with CSVLogger. Copies of a logger write to the same file. Reading a
/// report waits for the device. Throws FileFailed if it cannot write.
class JSONLinesLogger {
 public:
  /// Takes the path. Throws FileFailed if it cannot be written, or is not a regular file. The file
  /// changes with the first row, or in `begin`.
  explicit JSONLinesLogger(std::string path);

  /// Begins a file; with `start.resumed` keeps the rows before `start`, and rows without `step` and
  /// `epoch`. Throws BadFile for a line that is not a JSON object, and FileFailed if another logger
  /// writes to it.
  void begin(const LogStart& start);
  /// Writes a step.
  void log(const Report& report) const { write("step", columns_of(report)); }
  /// Writes a validation by steps.
  void log(const Validation& validation) const { write("validation", columns_of(validation)); }
  /// Writes an epoch.
  void log(const Epoch& epoch) const { write("epoch", columns_of(epoch)); }
  /// Does as `log`.
  template <class Event>
  void operator()(const Event& event) const {
    log(event);
  }
  /// Writes numbers of your own, as an object of this kind. Throws BadValue for a text that is not
  /// UTF-8.
  void write(const std::string& kind, const LogRow& row) const;

 private:
  std::shared_ptr<detail::LineLog> log_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/loggers/impl/json_lines_logger.ipp>
#endif
