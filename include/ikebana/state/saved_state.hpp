#pragma once
// A whole state to a file and back.
#include <ikebana/state/posix_files.hpp>
#include <ikebana/state/tensor_file.hpp>

namespace ikebana {

/// Writes named tensors to a safetensors file, with a checksum of each and of the header. The file
/// that was there stays whole until the new one is on the disk. Costs the writing: no copy is made
/// of tensors that are dense and on the CPU. Throws FileFailed for what the system refuses; then,
/// and for a tensor that no file can hold, what was there is untouched.
inline void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                         const Metadata& metadata = {}, Files& files = system_files()) {
  detail::TensorFileWriter writer(tensors, metadata);
  detail::write_durably(files, path, writer.size(), [&](OutputFile& f) { writer.write(f); });
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
  try {
    return TensorFileReader(files, path).all(/*checksums=*/true);
  } catch (const Error& error) {
    const auto former = with_ending(path, former_ending);
    if (!files.exists(former)) throw;
    TensorFile found = TensorFileReader(files, former).all(/*checksums=*/true);
    TORCH_WARN(error.what(), " Loaded the one before it, `", former.string(), "`.");
    return found;
  }
}

}  // namespace detail
}  // namespace ikebana
