#pragma once
// Writes the tensors of a program: their records in the archive, and the table that names them.
#include <filesystem>
#include <ikebana/detail/torch.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/zip_writer.hpp>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana::detail::pt2 {

/// Returns the schema's number of a dtype. Throws BadModel for a dtype that has no number.
std::int64_t dtype_number(c10::ScalarType type);

/// Adds tensors to an archive, and lists them. Tensors that are one are written once.
class PayloadWriter {
 public:
  /// Records are in `folder`, and their name is `prefix` and a number.
  PayloadWriter(ZipWriter& zip, std::string_view folder, std::string_view prefix)
      : zip_(zip), folder_(folder), prefix_(prefix) {}

  void add(const std::string& name, const at::Tensor& tensor, bool is_parameter,
           bool requires_grad);
  /// Returns the text of data/weights/NAME_weights_config.json, or of the file that lists
  /// constants.
  std::string table() const;

 private:
  struct Member {
    std::string name, record;
    at::Tensor values;  // the tensor, dense and on the CPU
    c10::Device device;
    bool is_parameter, requires_grad;
  };
  static void write_meta(JsonWriter& json, const Member& one);

  ZipWriter& zip_;
  std::string folder_, prefix_;
  std::unordered_map<const c10::TensorImpl*, std::string> records_;
  std::vector<Member> members_;
};

/// Makes the archive of a program at this path, with the records that each program has.
ZipWriter archive_of(const std::filesystem::path& path);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/payload_writer.ipp>
#endif
