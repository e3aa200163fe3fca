#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/save.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/zip_writer.hpp>

namespace ikebana::detail::pt2 {

/// Writes the tables of tensors and their records.
class TensorTables {
 public:
  explicit TensorTables(ZipWriter& zip) : zip_(zip) {}

  /// Adds the records of these tensors, and returns their table. Tensors that are one share a
  /// record.
  std::string add(const StoredTensors& tensors, std::string_view folder, std::string_view prefix) {
    JsonWriter json;
    std::map<const void*, std::string> records;
    json.object([&] {
      json.object("config", [&] {
        for (const auto& [name, stored] : tensors) {
          auto [record, is_new] =
              records.try_emplace(stored.tensor.unsafeGetTensorImpl(),
                                  std::string(prefix) + std::to_string(records.size()));
          if (is_new) add_record(std::string(folder) + record->second, stored.tensor);
          json.object(name, [&, &stored = stored, &record = record] {
            json.member("path_name", record->second);
            json.member("is_param", stored.is_parameter);
            json.member("use_pickle", false);
            json.object("tensor_meta", [&] { write_meta(json, stored); });
          });
        }
      });
    });
    return std::move(json).text();
  }

 private:
  void add_record(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous().cpu();
    zip_.add(name, dense.nbytes(), [dense](const ZipWriter::Sink& sink) {
      sink(dense.const_data_ptr(), dense.nbytes());
    });
  }
  static void write_meta(JsonWriter& json, const StoredTensor& stored) {
    const at::Tensor& tensor = stored.tensor;
    auto sizes = [&](const char* name, at::IntArrayRef numbers) {
      json.array(name, [&] {
        for (std::int64_t number : numbers) json.object([&] { json.member("as_int", number); });
      });
    };
    json.member("dtype", *number_of(dtypes, tensor.scalar_type()));
    sizes("sizes", tensor.sizes());
    json.member("requires_grad", stored.requires_grad);
    json.object("device", [&] {
      json.member("type", "cpu");
      json.member("index", nullptr);
    });
    sizes("strides", c10::contiguous_strides(tensor.sizes()));
    json.object("storage_offset", [&] { json.member("as_int", 0); });
    json.member("layout", *number_of(layouts, c10::kStrided));
  }

  ZipWriter& zip_;
};

/// The tensors of a table with the values that the modules have now, in the dtypes of the file.
IKEBANA_INLINE StoredTensors present(const StoredTensors& loaded,
                                     const std::map<std::string, at::Tensor>& now) {
  StoredTensors result;
  std::map<const void*, at::Tensor> converted;  // so that tied weights stay one
  for (const auto& [name, stored] : loaded) {
    StoredTensor& one = result[name] = stored;
    const auto found = now.find(name);
    if (found == now.end()) continue;
    at::Tensor& tensor = converted[found->second.unsafeGetTensorImpl()];
    if (!tensor.defined()) tensor = found->second.detach().to(one.dtype).cpu();
    one.tensor = tensor;
  }
  return result;
}

IKEBANA_INLINE void write_program_file(const ProgramFile& file,
                                       const std::map<std::string, at::Tensor>& now,
                                       const std::filesystem::path& path, Files& files) {
  ZipWriter zip(path.stem().string());
  TensorTables tables(zip);
  const std::string weights = tables.add(present(file.weights, now), weights_folder, weight_prefix);
  const std::string constants =
      tables.add(present(file.constants, now), constants_folder, constant_prefix);
  for (const NamedModel& model : file.models) {
    zip.add(weights_config_path(model.name), weights);
    zip.add(constants_config_path(model.name), constants);
    zip.add(graph_path(model.name), model.text);
    zip.add(sample_inputs_path(model.name), model.samples);
  }
  zip.add(std::string(format_path), std::string(format_value));
  zip.add(std::string(version_path), std::string(version_value));
  zip.add_records_of_pytorch();
  zip.write(files, path);
}

}  // namespace ikebana::detail::pt2
