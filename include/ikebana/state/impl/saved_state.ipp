#pragma once
#include <exception>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/saved_state.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_path(const std::filesystem::path& path, const char* call) {
  if (path.empty())
    throw BadValue(std::string(call) +
                   ": the path is empty. Give the name of a file, \"run.safetensors\".");
}

/// Writes one file, as `save_tensors` does.
inline void save_one_file(Files& files, const Files::Path& path, const StateDict& tensors,
                          const Metadata& metadata) {
  TensorFileWriter writer(tensors, metadata);
  write_durably(
      files, path, writer.size(), [&](OutputFile& file) { writer.write(file); },
      [&](const auto& present) { return is_intact(files, present); });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                                 const Metadata& metadata, Files& files) {
  detail::check_path(path, "save_tensors");
  const bool had_files_of_ranks = !detail::named_files(files, path).empty();
  detail::save_one_file(files, path, tensors, metadata);
  if (had_files_of_ranks) detail::remove_unnamed(files, path);
}

IKEBANA_INLINE TensorFile load_tensors(const std::filesystem::path& path, Files& files) {
  detail::check_path(path, "load_tensors");
  return detail::read_whole(files, path, /*require_checksums=*/false);
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE std::vector<Files::Path> places_of(const Files::Path& path) {
  return {path, with_suffix(path, former_suffix)};
}

IKEBANA_INLINE TensorFile load_state(Files& files, const Files::Path& path) {
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

}  // namespace ikebana::detail
