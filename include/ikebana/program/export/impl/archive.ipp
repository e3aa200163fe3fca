#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/archive.hpp>
#include <ikebana/program/export/sample_inputs.hpp>
#include <ikebana/program/payload_writer.hpp>
#include <ikebana/program/schema.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE void write_program(const ProgramParts& parts, const std::filesystem::path& path,
                                  Files& files) {
  const std::string model = "model";
  ZipWriter zip = pt2::archive_of(path);
  zip.add(pt2::graph_path(model), program_json(parts));
  pt2::PayloadWriter weights(zip, pt2::weights_folder, pt2::weight_prefix);
  for (const NamedWeight& weight : parts.weights.all())
    weights.add(weight.name, weight.tensor, weight.is_parameter,
                weight.is_parameter && weight.tensor.requires_grad());
  zip.add(pt2::weights_config_path(model), weights.table());
  pt2::PayloadWriter constants(zip, pt2::constants_folder, pt2::constant_prefix);
  for (std::size_t i = 0; i < parts.graph.constants.size(); ++i)
    constants.add(constant_name(i), parts.graph.constants[i].values, false, false);
  zip.add(pt2::constants_config_path(model), constants.table());
  zip.add(pt2::sample_inputs_path(model), torch_file(parts.inputs.call()));
  zip.write(files, path);
}

}  // namespace ikebana::detail::exported
