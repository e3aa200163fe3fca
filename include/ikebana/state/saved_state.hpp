#pragma once
// Writes all tensors of a state to a file, and reads them back.
#include <exception>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/tensor_reader.hpp>

namespace ikebana {

namespace detail {

/// True if every checksum of a file agrees. Reads all of it, one tensor at a time.
inline bool is_intact(Files& files, const Files::Path& path) {
  try {
    TensorFileReader(files, path).each(/*require_checksums=*/false, [](const auto&, const auto&) {
    });
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace detail

/// Writes named tensors to a safetensors file, with a checksum of each and of the header. An
/// existing file stays intact until the new one is durable. Costs the writing; tensors that are
/// contiguous and on the CPU are not copied. Throws FileFailed for an error of the system, and
/// BadModel for a tensor that a file cannot hold; an existing file is then unchanged.
inline void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                         const Metadata& metadata = {}, Files& files = system_files()) {
  detail::TensorFileWriter writer(tensors, metadata);
  detail::write_durably(
      files, path, writer.size(), [&](OutputFile& file) { writer.write(file); },
      [&](const auto& present) { return detail::is_intact(files, present); });
}

/// Reads any safetensors file into tensors on the CPU, and compares the checksums that it has.
/// Throws FileFailed for an error of the system, and BadFile for a damaged file.
inline TensorFile load_tensors(const std::filesystem::path& path, Files& files = system_files()) {
  return detail::TensorFileReader(files, path).all(/*require_checksums=*/false);
}

namespace detail {

/// Reads the state at `path`. If that is damaged or missing, reads the former one, which exists if
/// a save was interrupted, and warns. If neither is intact, throws the error of `path`.
inline TensorFile load_state(Files& files, const Files::Path& path) {
  std::exception_ptr error_of_path;
  std::string message;
  for (const auto& name : {path, with_suffix(path, former_suffix)}) try {
      TensorFile file = TensorFileReader(files, name).all(/*require_checksums=*/true);
      if (error_of_path) TORCH_WARN(message, " Loaded the state before it, `", name.string(), "`.");
      return file;
    } catch (const Error& error) {
      if (!error_of_path) error_of_path = std::current_exception(), message = error.what();
    }
  std::rethrow_exception(error_of_path);
}

}  // namespace detail
}  // namespace ikebana
