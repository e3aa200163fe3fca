#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/listed.hpp>
#include <ikebana/program/model_reader.hpp>
#include <ikebana/program/payload_writer.hpp>
#include <ikebana/program/program_file.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/state/files/zip_reader.hpp>
#include <tuple>

namespace ikebana::detail::pt2 {

class ProgramFileReader {
 public:
  ProgramFileReader(Files& files, const std::filesystem::path& path)
      : path_(path), zip_(files, path) {}

  IKEBANA_INLINE ProgramFile read(const std::string& model);

 private:
  /// A tensor's place in the archive: its record, and how it lies in that.
  using Place = std::tuple<std::string, at::ScalarType, std::vector<std::int64_t>,
                           std::vector<std::int64_t>, std::int64_t>;

  static constexpr std::uint64_t max_text = std::uint64_t{1} << 30;  // in bytes
  [[noreturn]] void bad(const std::string& what) const {
    throw BadFile("load_program: `" + escaped(path_.string()) + "`: " + what);
  }
  IKEBANA_INLINE void check_format();
  IKEBANA_INLINE std::vector<std::string> chosen(const std::string& model) const;
  IKEBANA_INLINE std::string text_of(const std::string& name);
  template <class Read>
  auto parsed(const std::string& name, const std::string& text, Read&& read) {
    try {
      return read(text);
    } catch (const Json::ParseError& error) {
      bad("`" + escaped(name) + "`, at byte " + std::to_string(error.offset) + ": " +
          escaped(error.what) + ". Use another copy, or export the model again.");
    }
  }
  IKEBANA_INLINE void add(const PayloadTable& table, std::string_view folder,
                          StoredTensors& tensors);
  IKEBANA_INLINE StoredTensor tensor_of(const std::string& name, const PayloadEntry& entry,
                                        std::string_view folder);
  IKEBANA_INLINE Place place_of(const std::string& name, const PayloadEntry& entry,
                                std::string_view folder);
  IKEBANA_INLINE std::int64_t check_place(const std::string& name, const Place& place);
  IKEBANA_INLINE at::Tensor load(const Place& place, std::int64_t bytes);
  IKEBANA_INLINE bool same_bytes(const std::string& record, const at::Tensor& tensor);

  std::filesystem::path path_;
  ZipReader zip_;
  std::map<Place, at::Tensor> loaded_;
  std::map<std::string, Place> records_;  // the tensor as which a record was read first
};

IKEBANA_INLINE std::string ProgramFileReader::text_of(const std::string& name) {
  if (!zip_.has(name))
    bad("it has no `" + escaped(name) +
        "`. Export the model by torch.export.save of PyTorch 2.9 or newer.");
  return zip_.text(name, max_text);
}

IKEBANA_INLINE void ProgramFileReader::check_format() {
  if (zip_.has(format_path)) {
    if (zip_.text(format_path, 64) != format_value)
      bad("its archive_format is not pt2. Use a file of torch.export.save.");
  } else if (zip_.has("serialized_exported_program.json")) {
    bad("it was written by a PyTorch before 2.8, whose layout is not read. Load it in Python by "
        "torch.export.load and save it again with PyTorch 2.9 or newer.");
  } else {
    bad("it is no archive of torch.export.save: it has no archive_format. Export the model by "
        "torch.export; files of TorchScript and torch.save are not read.");
  }
  if (zip_.has(byteorder_path) && zip_.text(byteorder_path, 64) != byteorder_value)
    bad("its byteorder is not little. Save it again on a processor of that order.");
}

IKEBANA_INLINE std::vector<std::string> ProgramFileReader::chosen(const std::string& model) const {
  std::vector<std::string> names;
  for (const ZipEntry& entry : zip_.entries()) {
    if (!entry.name.starts_with(models_folder) || !entry.name.ends_with(".json")) continue;
    names.push_back(
        entry.name.substr(models_folder.size(), entry.name.size() - models_folder.size() - 5));
  }
  if (names.empty()) bad("it holds no models. Export the model by torch.export.save.");
  auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (!model.empty()) {
    if (has(model.c_str())) return {model};
  } else if (names.size() == 1) {
    return names;
  } else if (names.size() == 2 && has("train") && has("eval")) {
    return {"train", "eval"};
  }
  const std::string list = listed(names);
  if (model.empty())
    bad("it holds the models " + list + ". Choose one: load_program(path, {.model = \"...\"}).");
  throw BadValue("load_program: `" + escaped(path_.string()) + "` has no model `" + escaped(model) +
                 "`, but " + list + ". Correct ProgramOptions::model.");
}

IKEBANA_INLINE ProgramFileReader::Place ProgramFileReader::place_of(const std::string& name,
                                                                    const PayloadEntry& entry,
                                                                    std::string_view folder) {
  const GraphTensor& tensor = entry.tensor;
  if (entry.is_pickled || !entry.has_tensor)
    bad("`" + escaped(name) +
        "` is pickled, as tensor subclasses and script objects are, and no pickle is read. Export "
        "the model with plain tensors.");
  if (!tensor.is_strided)
    bad("`" + escaped(name) + "` is no dense tensor. Export the model with dense tensors.");
  auto numbers = [&](const std::vector<GraphSize>& sizes) {
    std::vector<std::int64_t> all;
    for (const GraphSize& size : sizes) {
      if (!size.expression.empty() || size.number < 0)
        bad("`" + escaped(name) + "` has a size that is no number from 0 on. Use another copy.");
      all.push_back(size.number);
    }
    return all;
  };
  return {std::string(folder) + entry.path, tensor.dtype, numbers(tensor.sizes),
          numbers(tensor.strides), numbers({tensor.offset})[0]};
}

/// Throws if a tensor does not lie in its record. Returns its size in bytes.
IKEBANA_INLINE std::int64_t ProgramFileReader::check_place(const std::string& name,
                                                           const Place& place) {
  const std::string& record = std::get<0>(place);
  const auto& [_, dtype, sizes, strides, offset] = place;
  auto misfit = [&] {
    bad("`" + escaped(name) + "` does not fit into its record `" + escaped(record) +
        "`. Use another copy, or export the model again.");
  };
  if (!zip_.has(record)) misfit();
  if (sizes.size() != strides.size() || sizes.size() > 64) misfit();
  const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
  std::int64_t count = 1, last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(count, sizes[i], &count) ||
        __builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      misfit();
  }
  std::int64_t end = 0, bytes = 0;
  if (__builtin_add_overflow(last, 1, &end) || __builtin_mul_overflow(end, item, &end) ||
      __builtin_mul_overflow(count, item, &bytes))
    misfit();
  if (count != 0 && (static_cast<std::uint64_t>(end) > zip_.size(record) ||
                     static_cast<std::uint64_t>(bytes) > zip_.size(record)))
    misfit();
  return bytes;
}

IKEBANA_INLINE at::Tensor ProgramFileReader::load(const Place& place, std::int64_t bytes) {
  const auto& [record, dtype, sizes, strides, offset] = place;
  const std::uint64_t size = zip_.size(record);
  at::Tensor tensor = at::empty_strided(sizes, strides, dtype);
  const bool is_whole = tensor.is_non_overlapping_and_dense() &&
                        static_cast<std::uint64_t>(bytes) == size && offset == 0;
  if (is_whole) {
    zip_.read(record, tensor.data_ptr(), size);
    return tensor;
  }
  at::Tensor storage =
      at::empty({static_cast<std::int64_t>(size / c10::elementSize(dtype) + 1)}, dtype);
  zip_.read(record, storage.data_ptr(), size);
  return storage.as_strided(sizes, strides, offset).clone();
}

IKEBANA_INLINE StoredTensor ProgramFileReader::tensor_of(const std::string& name,
                                                         const PayloadEntry& entry,
                                                         std::string_view folder) {
  Place place = place_of(name, entry, folder);
  const std::int64_t bytes = check_place(name, place);
  at::Tensor& tensor = loaded_[place];
  if (!tensor.defined()) {
    const auto [first, is_new] = records_.try_emplace(std::get<0>(place), place);
    if (!is_new && bytes != 0)
      bad("`" + escaped(name) +
          "` shares memory with another tensor without being the same one. Export the model with "
          "tensors of their own.");
    tensor = load(place, bytes);
  }
  return {tensor, tensor.scalar_type(), entry.is_parameter, entry.tensor.requires_grad};
}

/// Returns true if a record holds the bytes of a tensor that was read before.
IKEBANA_INLINE bool ProgramFileReader::same_bytes(const std::string& record,
                                                  const at::Tensor& tensor) {
  for (const auto& [place, loaded] : loaded_)
    if (loaded.is_same(tensor))
      return zip_.size(std::get<0>(place)) == zip_.size(record) &&
             zip_.crc(std::get<0>(place)) == zip_.crc(record);
  return false;
}

/// Adds the tensors of a table. A tensor that another model of the archive has added must be the
/// same.
IKEBANA_INLINE void ProgramFileReader::add(const PayloadTable& table, std::string_view folder,
                                           StoredTensors& tensors) {
  for (const auto& [name, entry] : table) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      tensors.emplace(name, tensor_of(name, entry, folder));
      continue;
    }
    const Place place = place_of(name, entry, folder);
    check_place(name, place);
    const at::Tensor& first = found->second.tensor;
    if (std::get<1>(place) != first.scalar_type() || std::get<2>(place) != first.sizes() ||
        !same_bytes(std::get<0>(place), first))
      bad("the graphs of training and of evaluation have different values of `" + escaped(name) +
          "`. Export both from the same model.");
  }
}

IKEBANA_INLINE ProgramFile ProgramFileReader::read(const std::string& model) {
  check_format();
  ProgramFile file;
  for (const std::string& name : chosen(model)) {
    const std::string path = graph_path(name);
    std::string text = text_of(path);
    ProgramModel read = parsed(path, text, [](auto& t) { return read_model(t); });
    const std::string samples = sample_inputs_path(name);
    file.models.push_back({name, std::move(text),
                           zip_.has(samples) ? zip_.text(samples, max_text) : std::string(),
                           std::move(read)});
    const std::string weights = weights_config_path(name), constants = constants_config_path(name);
    if (!zip_.has(weights) && zip_.has(std::string(weights_folder) + name + ".pt"))
      bad("its weights are pickled, as PyTorch 2.8 wrote them, and no pickle is read. Load it in "
          "Python by torch.export.load and save it again with PyTorch 2.9 or newer.");
    auto table = [&](const std::string& of) {
      return parsed(of, text_of(of), [](auto& t) { return read_payloads(t); });
    };
    add(table(weights), weights_folder, file.weights);
    add(table(constants), constants_folder, file.constants);
  }
  return file;
}

IKEBANA_INLINE ProgramFile read_program_file(Files& files, const std::filesystem::path& path,
                                             const std::string& model) {
  return ProgramFileReader(files, path).read(model);
}

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
  ZipWriter zip = archive_of(path);
  auto table_of = [&](const StoredTensors& tensors, std::string_view folder,
                      std::string_view prefix) {
    PayloadWriter payloads(zip, folder, prefix);
    for (const auto& [name, one] : present(tensors, now))
      payloads.add(name, one.tensor, one.is_parameter, one.requires_grad);
    return payloads.table();
  };
  const std::string weights = table_of(file.weights, weights_folder, weight_prefix);
  const std::string constants = table_of(file.constants, constants_folder, constant_prefix);
  for (const NamedModel& model : file.models) {
    zip.add(weights_config_path(model.name), weights);
    zip.add(constants_config_path(model.name), constants);
    zip.add(graph_path(model.name), model.text);
    zip.add(sample_inputs_path(model.name), model.samples);
  }
  zip.write(files, path);
}

}  // namespace ikebana::detail::pt2
