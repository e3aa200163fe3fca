#pragma once
// Writes all tensors of a state to a file, and reads them back.
#include <exception>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/check_path.hpp>
#include <ikebana/state/rank_states.hpp>

namespace ikebana {

namespace detail {

/// Writes one file, as `save_tensors`.
inline void save_one_file(Files& files, const Files::Path& path, const StateDict& tensors,
                          const Metadata& metadata) {
  TensorFileWriter writer(tensors, metadata);
  write_durably(
      files, path, writer.size(), [&](OutputFile& file) { writer.write(file); },
      [&](const auto& present) { return is_intact(files, present); });
}

}  // namespace detail

/// Writes named tensors to a safetensors file, with a checksum of each and of the header. An
/// existing file stays intact until the new one is durable. Costs the writing; tensors that are
/// contiguous and on the CPU are not copied. Throws FileFailed for an error of the system, and
/// BadModel for a tensor that a file cannot hold; an existing file is then unchanged.
inline void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                         const Metadata& metadata = {}, Files& files = system_files()) {
  detail::check_path(path, "save_tensors");
  const bool had_files_of_ranks = !detail::named_files(files, path).empty();
  detail::save_one_file(files, path, tensors, metadata);
  if (had_files_of_ranks) detail::remove_unnamed(files, path);
}

/// Reads any safetensors file into tensors on the CPU, and compares the checksums that it has. Of a
/// state that several ranks saved, whole tensors, and what rank 0 had of its own. Throws FileFailed
/// for an error of the system, and BadFile for a damaged file.
inline TensorFile load_tensors(const std::filesystem::path& path, Files& files = system_files()) {
  detail::check_path(path, "load_tensors");
  return detail::read_whole(files, path, /*require_checksums=*/false);
}

namespace detail {

/// Where a state is looked for: at its path; and where the former one is, which exists if a save
/// was interrupted.
inline std::vector<Files::Path> places_of(const Files::Path& path) {
  return {path, with_suffix(path, former_suffix)};
}
/// Reads the state at `path`, of one rank or of several. If that is damaged or missing, reads the
/// former one, and warns. If neither is intact, throws the error of `path`.
inline TensorFile load_state(Files& files, const Files::Path& path) {
  std::exception_ptr error_of_path;
  std::string message;
  for (const auto& name : places_of(path)) try {
      TensorFile file = read_whole(files, name, /*require_checksums=*/true);
      if (error_of_path) TORCH_WARN(message, " Loaded the state before it, `", name.string(), "`.");
      return file;
    } catch (const Error& error) {
      if (!error_of_path) error_of_path = std::current_exception(), message = error.what();
    }
  std::rethrow_exception(error_of_path);
}

}  // namespace detail
}  // namespace ikebana
