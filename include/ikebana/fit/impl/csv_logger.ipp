#pragma once
#include <charconv>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/fit/csv_logger.hpp>
#include <ikebana/fit/fit.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana {

IKEBANA_INLINE CSVLogger::CSVLogger(std::string path) : file_(detail::make_shared_apart<File>()) {
  file_->path = std::move(path);
  detail::check_replaceable(file_->path);
  file_->out.open(file_->path, std::ios::trunc);
  check_written();
}

IKEBANA_INLINE void CSVLogger::operator()(const Report& report) const {
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

IKEBANA_INLINE void CSVLogger::operator()(const Epoch& epoch) const {
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

IKEBANA_INLINE void CSVLogger::operator()(const Row& row) const {
  std::string names, values;
  for (const auto& [name, value] : row) {
    names += (names.empty() ? "" : ",") + quoted(name);
    values += (values.empty() ? "" : ",") + text(value);
  }
  if (file_->columns.empty()) file_->out << (file_->columns = names) << '\n';
  if (file_->columns != names)
    throw Error("CSVLogger: `" + file_->path + "` has the columns " + file_->columns +
                ", and this row has " + names + ". Use one logger for each kind of row.");
  file_->out << values << '\n' << std::flush;
  check_written();
}

IKEBANA_INLINE void CSVLogger::check_written() const {
  if (!file_->out)
    throw Error("CSVLogger: cannot write to `" + file_->path +
                "`. Check that its folder exists and the disk has free space.");
}

IKEBANA_INLINE std::string CSVLogger::text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

IKEBANA_INLINE std::string CSVLogger::quoted(const std::string& name) {
  if (name.find_first_of(",\"\r\n") == std::string::npos) return name;
  std::string escaped = "\"";
  for (char c : name) escaped += c == '"' ? "\"\"" : std::string(1, c);
  return escaped + "\"";
}

}  // namespace ikebana
