#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/payload_writer.hpp>
#include <ikebana/program/schema.hpp>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE std::int64_t dtype_number(c10::ScalarType type) {
  if (const auto number = number_of(dtypes, type)) return *number;
  throw BadModel(std::string("export_program: torch.export has no number for the dtype ") +
                 c10::toString(type) + ". Convert the tensor to another one.");
}

IKEBANA_INLINE void PayloadWriter::add(const std::string& name, const at::Tensor& tensor,
                                       bool is_parameter, bool requires_grad) {
  auto [record, is_new] = records_.try_emplace(tensor.unsafeGetTensorImpl());
  at::Tensor values = tensor.detach().to(at::kCPU);
  if (!values.is_non_overlapping_and_dense()) values = values.contiguous();
  if (is_new) {
    record->second = prefix_ + std::to_string(records_.size() - 1);
    const std::size_t bytes = values.nbytes();
    zip_.add(folder_ + record->second, bytes, [values, bytes](const ZipWriter::Sink& sink) {
      if (bytes > 0) sink(values.const_data_ptr(), bytes);
    });
  }
  members_.push_back({name, record->second, values, tensor.device(), is_parameter, requires_grad});
}

IKEBANA_INLINE std::string PayloadWriter::table() const {
  JsonWriter json({.spaces = true});
  json.object([&] {
    json.object("config", [&] {
      for (const Member& one : members_)
        json.object(one.name, [&] {
          json.member("path_name", one.record);
          json.member("is_param", one.is_parameter);
          json.member("use_pickle", false);
          json.object("tensor_meta", [&] { write_meta(json, one); });
        });
    });
  });
  return std::move(json).text();
}

IKEBANA_INLINE void PayloadWriter::write_meta(JsonWriter& json, const Member& one) {
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
  json.member("layout", *number_of(layouts, c10::Layout::Strided));
}

IKEBANA_INLINE ZipWriter archive_of(const std::filesystem::path& path) {
  std::string root = path.stem().string();
  if (root.empty() || root.find_first_of("/\\.") != root.npos) root = "package";
  ZipWriter zip(root);
  zip.add(std::string(format_path), std::string(format_value));
  zip.add(std::string(version_path), std::string(version_value));
  zip.add_records_of_pytorch();
  return zip;
}

}  // namespace ikebana::detail::pt2
