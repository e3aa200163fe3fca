#pragma once
#include <charconv>
#include <cstdlib>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/fit/csv_logger.hpp>
#include <string_view>

namespace ikebana {

namespace detail {

/// Reads lines of comma-separated values. A quoted value may have commas and line breaks.
class CSVReader {
 public:
  explicit CSVReader(std::string_view text) : text_(text) {}
  /// Reads the next line. Returns false at the end.
  bool next() {
    begin_ = at_, cells_.assign(1, "");
    if (at_ == text_.size()) return false;
    for (bool in_quotes = false; at_ < text_.size();) {
      const char c = text_[at_++];
      if (!in_quotes && c == '\n') break;
      if (!in_quotes && c == ',') cells_.emplace_back();
      else if (c != '"') cells_.back() += c;
      else if (in_quotes && at_ < text_.size() && text_[at_] == '"') cells_.back() += text_[at_++];
      else in_quotes = !in_quotes;
    }
    return true;
  }
  const std::vector<std::string>& cells() const { return cells_; }
  /// The line with its line break.
  std::string_view line() const { return text_.substr(begin_, at_ - begin_); }

 private:
  std::string_view text_;
  std::size_t at_ = 0, begin_ = 0;
  std::vector<std::string> cells_;
};

}  // namespace detail

IKEBANA_INLINE CSVLogger::CSVLogger(std::string path, LogRows rows)
    : rows_(rows), file_(detail::make_shared_apart<File>(std::move(path))) {}

IKEBANA_INLINE void CSVLogger::begin(const LogStart& start) {
  if (start.resumed)
    file_->log.open_kept([&](const std::string& text) { return kept(text, start); });
  else if (!file_->log.is_open()) file_->log.open_new();
}

IKEBANA_INLINE void CSVLogger::log(const Report& report) const {
  if (rows_ == LogRows::steps) (*this)(report);
}

IKEBANA_INLINE void CSVLogger::log(const Validation& validation) const {
  if (rows_ == LogRows::validations) (*this)(validation);
}

IKEBANA_INLINE void CSVLogger::log(const Epoch& epoch) const {
  if (rows_ == LogRows::epochs) (*this)(epoch);
}

IKEBANA_INLINE void CSVLogger::operator()(const Report& report) const {
  (*this)(columns_of(report));
}

IKEBANA_INLINE void CSVLogger::operator()(const Validation& validation) const {
  (*this)(columns_of(validation));
}

IKEBANA_INLINE void CSVLogger::operator()(const Epoch& epoch) const { (*this)(columns_of(epoch)); }

IKEBANA_INLINE void CSVLogger::operator()(const Row& row) const {
  std::string names, values;
  for (const auto& [name, value] : row) {
    names += (names.empty() ? "" : ",") + detail::csv_field(name);
    values += (values.empty() ? "" : ",") + text(value);
  }
  std::string& columns = file_->columns;
  if (!columns.empty() && columns != names)
    throw Error("CSVLogger: `" + file_->log.path() + "` has the columns " + columns +
                ", and this row has " + names +
                ". Use one logger for each kind of row; for a training that goes on with another "
                "recipe, another file.");
  file_->log.add((columns.empty() ? names + "\n" : "") + values + "\n");
  columns = names;
}

IKEBANA_INLINE std::string CSVLogger::kept(const std::string& text, const LogStart& start) const {
  detail::CSVReader reader(text);
  std::string lines, columns;
  if (reader.next()) lines = reader.line(), columns = lines.substr(0, lines.size() - 1);
  const std::vector<std::string> names = reader.cells();
  const std::string& path = file_->log.path();
  while (reader.next()) {
    const std::vector<std::string>& cells = reader.cells();
    if (cells.size() != names.size())
      throw BadFile("CSVLogger: `" + path + "` is not a log with the columns " + columns +
                    ": it has the line `" +
                    std::string(reader.line().substr(0, reader.line().size() - 1)) +
                    "`. Name another file, or remove this one.");
    std::optional<double> step, epoch;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "step") step = std::strtod(cells[i].c_str(), nullptr);
      if (names[i] == "epoch") epoch = std::strtod(cells[i].c_str(), nullptr);
    }
    if (detail::is_before(start, step, epoch, path)) lines += reader.line();
  }
  file_->columns = columns;
  return lines;
}

IKEBANA_INLINE std::string CSVLogger::text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

}  // namespace ikebana
