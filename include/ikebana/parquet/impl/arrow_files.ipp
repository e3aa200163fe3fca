#pragma once
// Opens the Arrow files of a dataset.
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <algorithm>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/parquet/arrow_table.hpp>
#include <ikebana/parquet/impl/arrow_values.ipp>
#include <ikebana/parquet/impl/read_parquet.ipp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/files/json.hpp>

namespace ikebana::detail {

/// The batches of all files, which are mapped, and the first row of each.
class ArrowFiles {
 public:
  struct Cell {
    std::shared_ptr<arrow::Array> array;
    std::int64_t row = 0;
    std::string where;  // for errors
    bool is_missing = false;
  };

  explicit ArrowFiles(const std::vector<std::filesystem::path>& paths) {
    for (const auto& path : paths) add(path);
  }

  std::int64_t rows() const { return first_rows_.back(); }
  const arrow::Schema& schema() const { return *batches_.at(0).batch->schema(); }
  /// Returns where the value of a row is. A name with dots leads into structs.
  Cell cell(std::int64_t index, const std::string& column) const;
  void check(std::int64_t index) const;

 private:
  struct Batch {
    std::shared_ptr<arrow::RecordBatch> batch;
    std::string path;
  };

  void add(const std::filesystem::path& path);
  void add_batch(std::shared_ptr<arrow::RecordBatch> batch, const std::string& path);

  std::vector<Batch> batches_;
  std::vector<std::int64_t> first_rows_{0};  // the first row of each batch, then the number of rows
};

inline void ArrowFiles::add_batch(std::shared_ptr<arrow::RecordBatch> batch,
                                  const std::string& path) {
  // Views of texts are the only values whose positions are not checked where they are read.
  const bool has_views = batch->schema()->ToString().find("_view") != std::string::npos;
  check_arrow(has_views ? batch->ValidateFull() : batch->Validate(), path);
  if (!batches_.empty() && !schema().Equals(*batch->schema(), /*check_metadata=*/false))
    throw BadFile("ArrowTable: `" + path + "` has the columns " + batch->schema()->ToString() +
                  ", and `" + batches_[0].path + "` others. Give files of one dataset.");
  first_rows_.push_back(first_rows_.back() + batch->num_rows());
  batches_.push_back({std::move(batch), path});
}

inline void ArrowFiles::add(const std::filesystem::path& path) {
  const auto file = map_file(path);
  const std::string name = path.string();
  const auto begin = value_of_arrow(file->ReadAt(0, 6), name);
  if (begin->ToString() == "ARROW1") {
    const auto reader = value_of_arrow(arrow::ipc::RecordBatchFileReader::Open(file), name);
    for (int i = 0; i < reader->num_record_batches(); ++i)
      add_batch(value_of_arrow(reader->ReadRecordBatch(i), name), name);
    return;
  }
  const auto reader = value_of_arrow(arrow::ipc::RecordBatchStreamReader::Open(file), name);
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    check_arrow(reader->ReadNext(&batch), name);
    if (!batch) return;
    add_batch(std::move(batch), name);
  }
}

inline void ArrowFiles::check(std::int64_t index) const {
  if (index < 0 || index >= rows())
    throw BadValue("ArrowTable: there is no row " + std::to_string(index) + "; indices are 0 to " +
                   std::to_string(rows() - 1) + ". Choose one of these.");
}

inline ArrowFiles::Cell ArrowFiles::cell(std::int64_t index, const std::string& column) const {
  check(index);
  const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), index);
  const auto number = static_cast<std::size_t>(after - first_rows_.begin()) - 1;
  const Batch& batch = batches_[number];
  Cell cell{nullptr, index - first_rows_[number],
            "ArrowTable: `" + batch.path + "`, row " + std::to_string(index) + ", column `" +
                column + "`: "};
  std::string rest = column;
  cell.array = batch.batch->GetColumnByName(column);  // also a name that has dots itself
  if (cell.array) rest.clear();
  std::vector<std::string> names = batch.batch->schema()->field_names();
  while (!rest.empty()) {
    const auto dot = rest.find('.');
    const std::string name = rest.substr(0, dot);
    if (!cell.array) {
      cell.array = batch.batch->GetColumnByName(name);
    } else if (cell.array->type_id() == arrow::Type::STRUCT) {
      cell.is_missing = cell.is_missing || cell.array->IsNull(cell.row);
      cell.array = static_cast<const arrow::StructArray&>(*cell.array).GetFieldByName(name);
    } else {
      cell.array = nullptr;
    }
    if (!cell.array)
      throw BadValue("ArrowTable: `" + batch.path + "` has no such column" +
                     nearest_names({column}, names) + ". Correct the name.");
    rest = dot == rest.npos ? "" : rest.substr(dot + 1);
  }
  cell.is_missing = cell.is_missing || cell.array->IsNull(cell.row);
  return cell;
}

/// Returns the names of the files that a `state.json` of Hugging Face's datasets lists.
inline std::vector<std::string> files_of_state(const std::filesystem::path& path) {
  const auto file = system_files().open(path);
  std::string text(file->size(), '\0');
  file->read(0, text.data(), text.size());
  std::vector<std::string> names;
  Json json(text, 0);
  try {
    json.object("state.json", [&](const std::string& key) {
      if (key != "_data_files") return json.skip_value();
      json.array("_data_files", [&] {
        json.object("a file", [&](const std::string& field) {
          if (field == "filename") names.push_back(json.string());
          else json.skip_value();
        });
      });
    });
  } catch (const Json::ParseError& error) {
    throw BadFile("ArrowTable: `" + path.string() + "`, byte " + std::to_string(error.offset) +
                  ": " + error.what + ". Save the dataset again.");
  }
  return names;
}

inline std::vector<std::filesystem::path> files_of_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  if (system_files().exists(folder / "state.json"))
    for (const auto& name : files_of_state(folder / "state.json")) paths.push_back(folder / name);
  if (paths.empty())
    throw BadFile(
        "ArrowTable: `" + folder.string() +
        (system_files().exists(folder / "dataset_dict.json")
             ? "` has several splits. Name the folder of one, such as `" +
                   (folder / "train").string() + "`."
             : "` has no state.json that lists files. Name a folder of `save_to_disk`, or "
               "the .arrow files."));
  return paths;
}

}  // namespace ikebana::detail

namespace ikebana {

std::shared_ptr<const detail::ArrowFiles> detail::open_arrow_files(
    const std::vector<std::filesystem::path>& paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const auto inside = files_of_folder(path);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  auto all = std::make_shared<const ArrowFiles>(files);
  if (all->rows() == 0)
    throw BadFile("ArrowTable: the " + std::to_string(files.size()) +
                  " files that are given have no row. Name the files of a dataset.");
  return all;
}

std::int64_t detail::rows_of(const ArrowFiles& files) { return files.rows(); }
void detail::check_row(const ArrowFiles& files, std::int64_t index) { files.check(index); }

std::vector<std::string> detail::columns_of(const ArrowFiles& files) {
  std::vector<std::string> columns;
  for (const auto& field : files.schema().fields())
    columns.push_back(field->name() + ": " + field->type()->ToString());
  return columns;
}

}  // namespace ikebana
