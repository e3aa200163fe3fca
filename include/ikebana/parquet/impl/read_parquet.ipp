#pragma once
#include <arrow/io/file.h>
#include <arrow/util/config.h>
#include <parquet/arrow/reader.h>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/parquet/impl/arrow_values.ipp>
#include <ikebana/parquet/read_parquet.hpp>

namespace ikebana {
namespace detail {

inline Texts texts_of(const arrow::ChunkedArray& chunks, const std::string& where) {
  Texts texts;
  for (const auto& chunk : chunks.chunks())
    for (std::int64_t i = 0; i < chunk->length(); ++i) {
      if (chunk->IsNull(i)) {
        texts.missing.push_back(texts.size());
      } else {
        const auto text = text_of(*chunk, i);
        if (!text) throw BadFile(where + "a text is damaged. Write the file again.");
        texts.bytes += *text;
      }
      texts.ends.push_back(texts.bytes.size());
    }
  return texts;
}

/// Makes a floating tensor of numbers with missing values, which become NaN.
inline at::Tensor with_nan(const arrow::ChunkedArray& chunks, const at::Tensor& values,
                           const std::string& where) {
  const bool is_integer = at::isIntegralType(values.scalar_type(), false);
  at::Tensor reals = values.is_floating_point() ? values : values.to(at::kDouble);
  at::Tensor missing = at::zeros(values.sizes(), at::kBool);
  auto* is_missing = missing.mutable_data_ptr<bool>();
  std::int64_t row = 0;
  for (const auto& chunk : chunks.chunks())
    for (std::int64_t i = 0; i < chunk->length(); ++i, ++row) is_missing[row] = chunk->IsNull(i);
  if (is_integer && values.ne(reals.to(values.scalar_type()))
                        .logical_and_(missing.logical_not())
                        .any()
                        .item<bool>())
    throw BadFile(where +
                  "it has missing values, so that its integers would become doubles, and "
                  "one is no double. Fill the missing values in the file.");
  return reals.masked_fill_(missing, std::numeric_limits<double>::quiet_NaN());
}

inline TableColumn column_of(const std::string& name, const arrow::ChunkedArray& chunks,
                             const std::string& path) {
  const std::string where = path + ", column `" + name + "`: ";
  TableColumn column{.name = name, .values = {}, .texts = {}};
  const arrow::DataType& type = *chunks.type();
  if (is_text_type(type)) {
    column.texts = texts_of(chunks, where);
    return column;
  }
  if (type.id() == arrow::Type::NA) {
    column.values =
        at::full({chunks.length()}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
    return column;
  }
  const at::ScalarType dtype = wide_dtype_of(type.id());
  if (dtype == at::ScalarType::Undefined)
    throw BadValue(where + "its type is " + type.ToString() +
                   ", and a table has numbers and texts. Name the other columns (`columns`), or "
                   "convert this one.");
  at::Tensor values = at::empty({chunks.length()}, dtype);
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  std::int64_t row = 0;
  for (const auto& chunk : chunks.chunks()) {
    const std::int64_t offset = row * static_cast<std::int64_t>(values.element_size());
    const std::int64_t wrong = copy_numbers(*chunk, 0, chunk->length(), to + offset);
    if (wrong >= 0)
      throw BadFile(where + "row " + std::to_string(row + wrong) +
                    " (counted from 0) is beyond the range of Long. Store it as text.");
    row += chunk->length();
  }
  column.values = chunks.null_count() > 0 ? with_nan(chunks, values, where) : values;
  return column;
}

/// Opens a file. Throws FileFailed if it cannot be read.
inline std::shared_ptr<arrow::io::MemoryMappedFile> map_file(const std::filesystem::path& path) {
  auto file = arrow::io::MemoryMappedFile::Open(path.string(), arrow::io::FileMode::READ);
  if (!file.ok())
    throw FileFailed("parquet: cannot read `" + path.string() + "`: " + file.status().message() +
                     ". Correct the path.");
  return *file;
}

inline std::shared_ptr<arrow::Table> read_arrow_table(const std::filesystem::path& path,
                                                      const ParquetOptions& options) {
  const std::string name = path.string();
  parquet::arrow::FileReaderBuilder builder;
  check_arrow(builder.Open(map_file(path)), name);
  std::unique_ptr<parquet::arrow::FileReader> reader;
#if ARROW_VERSION_MAJOR >= 24
  reader = value_of_arrow(builder.Build(), name);
#else
  check_arrow(builder.Build(&reader), name);
#endif
  std::shared_ptr<arrow::Schema> schema;
  check_arrow(reader->GetSchema(&schema), name);
  std::vector<int> leaves;  // a column with parts, such as a struct, has several
  const auto* parts = reader->parquet_reader()->metadata()->schema();
  for (const auto& column : options.columns) {
    if (schema->GetFieldIndex(column) < 0)
      throw BadValue("parquet: `" + name + "` has no column of `columns`" +
                     nearest_names({column}, schema->field_names()) + ". Correct the name.");
    for (int i = 0; i < parts->num_columns(); ++i)
      if (parts->GetColumnRoot(i)->name() == column) leaves.push_back(i);
  }
  if (options.columns.empty())
    for (int i = 0; i < parts->num_columns(); ++i) leaves.push_back(i);
#if ARROW_VERSION_MAJOR >= 24
  return value_of_arrow(reader->ReadTable(leaves), name);
#else
  std::shared_ptr<arrow::Table> table;
  check_arrow(reader->ReadTable(leaves, &table), name);
  return table;
#endif
}

}  // namespace detail

Table read_parquet(const std::filesystem::path& path, const ParquetOptions& options) {
  std::vector<detail::TableColumn> columns;
  try {
    const auto table = detail::read_arrow_table(path, options);
    detail::check_arrow(table->ValidateFull(), path.string());
    for (int i = 0; i < table->num_columns(); ++i)
      columns.push_back(
          detail::column_of(table->field(i)->name(), *table->column(i), path.string()));
  } catch (const parquet::ParquetException& error) {
    throw BadFile("parquet: `" + path.string() + "`: Arrow says: " + error.what() +
                  ". Write the file again.");
  }
  return Table(path.string(), std::move(columns));
}

}  // namespace ikebana
