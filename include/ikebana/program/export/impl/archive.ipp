#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/archive.hpp>
#include <ikebana/program/export/sample_inputs.hpp>
#include <ikebana/program/schema.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/zip_writer.hpp>
#include <unordered_map>

namespace ikebana::detail::exported {

/// Adds tensors to an archive, and the list of them. Tensors that are one are written once.
class PayloadWriter {
 public:
  PayloadWriter(ZipWriter& zip, std::string_view folder, std::string_view prefix)
      : zip_(zip), folder_(folder), prefix_(prefix) {}

  void add(const std::string& name, const at::Tensor& tensor, bool is_parameter) {
    auto [file, is_new] = files_.try_emplace(tensor.unsafeGetTensorImpl());
    at::Tensor values = tensor.detach().to(at::kCPU);
    if (!values.is_non_overlapping_and_dense()) values = values.contiguous();
    if (is_new) {
      file->second = prefix_ + std::to_string(files_.size() - 1);
      const std::size_t bytes = values.nbytes();
      zip_.add(folder_ + file->second, bytes, [values, bytes](const ZipWriter::Sink& sink) {
        if (bytes > 0) sink(values.const_data_ptr(), bytes);
      });
    }
    json_members_.push_back({name, file->second, values, tensor.device(), is_parameter,
                             is_parameter && tensor.requires_grad()});
  }
  /// Adds the list of the tensors.
  void finish(const std::string& path) {
    JsonWriter json({.spaces = true});
    json.object([&] {
      json.object("config", [&] {
        for (const Member& one : json_members_)
          json.object(one.name, [&] {
            json.member("path_name", one.file);
            json.member("is_param", one.is_parameter);
            json.member("use_pickle", false);
            json.object("tensor_meta", [&] { meta(json, one); });
          });
      });
    });
    zip_.add(path, std::move(json).text());
  }

 private:
  struct Member {
    std::string name, file;
    at::Tensor values;
    c10::Device device;
    bool is_parameter, requires_grad;
  };
  static void meta(JsonWriter& json, const Member& one) {
    const auto numbers = [&](const char* name, at::IntArrayRef values) {
      json.array(name, [&] {
        for (const std::int64_t value : values) json.object([&] { json.member("as_int", value); });
      });
    };
    json.member("dtype", dtype_number(one.values.scalar_type()));
    numbers("sizes", one.values.sizes());
    json.member("requires_grad", one.requires_grad);
    json.object("device", [&] {
      json.member("type", c10::DeviceTypeName(one.device.type(), /*lower_case=*/true));
      if (one.device.has_index() && !one.device.is_cpu()) json.member("index", one.device.index());
      else json.member("index", nullptr);
    });
    numbers("strides", one.values.strides());
    json.object("storage_offset", [&] { json.member("as_int", 0); });
    json.member("layout", *pt2::number_of(pt2::layouts, c10::Layout::Strided));
  }

  ZipWriter& zip_;
  std::string folder_, prefix_;
  std::unordered_map<const c10::TensorImpl*, std::string> files_;
  std::vector<Member> json_members_;
};

IKEBANA_INLINE void write_program(const ProgramParts& parts, const std::filesystem::path& path,
                                  Files& files) {
  const std::string model = "model";
  std::string root = path.stem().string();
  if (root.empty() || root.find_first_of("/\\.") != root.npos) root = "package";
  ZipWriter zip(root);
  zip.add(std::string(pt2::format_path), std::string(pt2::format_value));
  zip.add(std::string(pt2::version_path), std::string(pt2::version_value));
  zip.add(pt2::graph_path(model), program_json(parts));
  PayloadWriter weights(zip, pt2::weights_folder, pt2::weight_prefix);
  for (const NamedWeight& weight : parts.weights.all())
    weights.add(weight.name, weight.tensor, weight.is_parameter);
  weights.finish(pt2::weights_config_path(model));
  PayloadWriter constants(zip, pt2::constants_folder, pt2::constant_prefix);
  for (std::size_t i = 0; i < parts.graph.constants.size(); ++i)
    constants.add(constant_name(i), parts.graph.constants[i].values, false);
  constants.finish(pt2::constants_config_path(model));
  zip.add(pt2::sample_inputs_path(model), torch_file(parts.inputs.call()));
  zip.add_records_of_pytorch();
  zip.write(files, path);
}

}  // namespace ikebana::detail::exported
