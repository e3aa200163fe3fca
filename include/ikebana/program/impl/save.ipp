#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/payload_writer.hpp>
#include <ikebana/program/save.hpp>
#include <ikebana/program/schema.hpp>

namespace ikebana::detail::pt2 {

/// Returns the tensors of a table with the present values of the modules, in the dtypes of the
/// file.
IKEBANA_INLINE StoredTensors present(const StoredTensors& loaded,
                                     const std::map<std::string, at::Tensor>& now) {
  StoredTensors result;
  std::map<const void*, at::Tensor> converted;  // keeps tied weights one tensor
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
