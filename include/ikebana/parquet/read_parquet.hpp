#pragma once
// read_parquet: reads a Parquet file as a table.
#include <filesystem>
#include <ikebana/files/table.hpp>

namespace ikebana {

/// Options of `read_parquet`.
struct ParquetOptions {
  std::vector<std::string> columns{};  ///< the columns to read; empty: all
};

/// Reads a Parquet file as a table, as `pandas.read_parquet`. Integers of up to 64 bits, Bool,
/// 16, 32 and 64 bit floats keep their dtype (uint16 becomes Int, uint32 and uint64 Long); texts,
/// bytes and dictionaries of these become texts. Integers and Bool with missing values become
/// Double with NaN. Throws BadValue for a column that does not exist or whose type is another, such
/// as a list or a date, with its name and type; BadFile for a damaged file, and for an integer that
/// its dtype cannot hold.
Table read_parquet(const std::filesystem::path& path, const ParquetOptions& options = {});

}  // namespace ikebana
