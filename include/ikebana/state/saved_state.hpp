#pragma once
// A whole state to a file and back.
#include <exception>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/tensor_reader.hpp>

namespace ikebana {

namespace detail {

/// Reads all of a file, with the memory of its largest tensor.
inline bool is_whole(Files& files, const Files::Path& path) {
  try {
    TensorFileReader(files, path).each(/*checksums=*/false, [](const auto&, const auto&) {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace detail

/// Writes named tensors to a safetensors file, with a checksum of each and of the header. The file
/// that was there stays whole until the new one is on the disk. Costs the writing: no copy is made
/// of tensors that are dense and on the CPU. Throws FileFailed for what the system refuses; then,
/// and for a tensor that no file can hold, what was there is untouched.
inline void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                         const Metadata& metadata = {}, Files& files = system_files()) {
  detail::TensorFileWriter writer(tensors, metadata);
  detail::write_durably(
      files, path, writer.size(), [&](OutputFile& file) { writer.write(file); },
      [&](const auto& present) { return detail::is_whole(files, present); });
}

/// Reads a safetensors file, whoever wrote it, into tensors on the CPU; checksums that it has are
/// compared. Throws FileFailed, and BadFile for one that is damaged.
inline TensorFile load_tensors(const std::filesystem::path& path, Files& files = system_files()) {
  return detail::TensorFileReader(files, path).all(/*checksums=*/false);
}

namespace detail {

/// The state at `path`; where that is damaged or gone, the one before it, whose saving was cut
/// short. Throws what is wrong with `path` where neither is whole.
inline TensorFile load_state(Files& files, const Files::Path& path) {
  std::exception_ptr wrong;
  std::string why;
  for (const auto& name : {path, with_ending(path, former_ending)}) try {
      TensorFile found = TensorFileReader(files, name).all(/*checksums=*/true);
      if (wrong) TORCH_WARN(why, " Loaded the one before it, `", name.string(), "`.");
      return found;
    } catch (const Error& error) {
      if (!wrong) wrong = std::current_exception(), why = error.what();
    }
  std::rethrow_exception(wrong);
}

}  // namespace detail
}  // namespace ikebana
