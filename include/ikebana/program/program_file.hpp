#pragma once
// Reads a `.pt2` archive: its models, and the tensors of their parameters, buffers and constants.
// Writes it again, with the weights of now.
#include <filesystem>
#include <ikebana/posix/files.hpp>
#include <ikebana/program/graph.hpp>
#include <map>
#include <string>
#include <vector>

namespace ikebana::detail::pt2 {

/// A tensor of the file.
struct StoredTensor {
  at::Tensor tensor;
  at::ScalarType dtype = at::kFloat;  ///< the dtype in the file, from which the tensor may have
                                      ///< been converted since
  bool is_parameter = false;
  bool requires_grad = false;
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// A model of the archive: models/NAME.json.
struct NamedModel {
  std::string name;
  std::string text;     ///< the file's text, which is written again
  std::string samples;  ///< the record of example inputs, which is pickled and therefore never read
  ProgramModel model;
};

/// The contents of an archive. Tensors that Python shares under several names are one tensor here.
struct ProgramFile {
  std::vector<NamedModel> models;  ///< one, or `train` and `eval`
  StoredTensors weights;           ///< the weights of all models, by name
  StoredTensors constants;         ///< the constants, and the buffers that are not persistent
};

/// Reads the model with this name, or, if it is empty, the only one or the pair `train` and `eval`.
/// Throws BadFile for a file that is damaged or of another format, FileFailed for an error of the
/// system, and BadValue for a name that the file does not have.
ProgramFile read_program_file(Files& files, const std::filesystem::path& path,
                              const std::string& model);
/// Writes the archive that a program was loaded from with other values of its parameters and
/// buffers, by name, in the dtypes that the file had; everything else stays. An interruption leaves
/// the file at `path` as it was. Throws FileFailed.
void write_program_file(const ProgramFile& file, const std::map<std::string, at::Tensor>& now,
                        const std::filesystem::path& path, Files& files);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/program_file.ipp>
#endif
