#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/files/csv.hpp>
#include <ikebana/files/csv_reader.hpp>

namespace ikebana {

IKEBANA_INLINE Table read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  return detail::CsvReader(path, options).read();
}

}  // namespace ikebana
