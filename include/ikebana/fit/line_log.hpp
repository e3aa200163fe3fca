#pragma once
// Defines logs that are text files with a line per row.
#include <functional>
#include <ikebana/fit/logger.hpp>
#include <ikebana/posix/append_file.hpp>

namespace ikebana::detail {

/// Says whether a row that was written before a resume is of a step or an epoch before it. Throws
/// BadValue if `start` has no epoch and the row has no step.
bool is_before(const LogStart& start, std::optional<double> step, std::optional<double> epoch,
               const std::string& path);

/// The file of a log. Opens at the first line, or when a training begins.
class LineLog {
 public:
  /// Throws FileFailed if the file cannot be written.
  explicit LineLog(std::string path);

  const std::string& path() const { return path_; }
  bool is_open() const { return file_ != nullptr; }
  /// Begins an empty file. A file with rows of another training gets the suffix `.former`.
  void open_new();
  /// Replaces the file by what `kept` returns for its text, and goes on after that. The text has
  /// whole lines; a line that was torn when its process was killed is left out.
  void open_kept(const std::function<std::string(const std::string&)>& kept);
  /// Appends a line, or several, each with its line break.
  void add(const std::string& lines);

 private:
  std::string path_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/line_log.ipp>
#endif
