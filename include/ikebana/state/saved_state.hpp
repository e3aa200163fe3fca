#pragma once
// Writes all tensors of a state to a file, and reads them back.
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/safetensors_reader.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>

namespace ikebana {

/// Writes named tensors to a safetensors file, with a checksum of each and of the header. An
/// existing file stays intact until the new one is durable. Costs the writing; tensors that are
/// contiguous and on the CPU are not copied. Throws FileFailed for an error of the system, and
/// BadModel for a tensor that a file cannot hold; an existing file is then unchanged.
void save_tensors(const std::filesystem::path& path, const StateDict& tensors,
                  const Metadata& metadata = {}, Files& files = system_files());

/// Reads any safetensors file into tensors on the CPU, and compares the checksums that it has. From
/// a state that several ranks saved, reads whole tensors, and rank 0's own. Throws FileFailed for
/// an error of the system, and BadFile for a damaged file.
TensorFile load_tensors(const std::filesystem::path& path, Files& files = system_files());

namespace detail {

/// Throws BadValue if the path that `call` was given is empty, as from a variable that was not set.
/// It names no file, and the system's own error would not say which call got it.
void check_path(const std::filesystem::path& path, const char* call);

/// Returns the paths at which a state is looked for: its own, and that of the former state, which
/// exists if a save was interrupted.
std::vector<Files::Path> places_of(const Files::Path& path);
/// Reads the state at `path`, of one rank or of several. If that is damaged or missing, reads the
/// former one, and warns. If neither is intact, throws the error of `path`.
TensorFile load_state(Files& files, const Files::Path& path);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/saved_state.ipp>
#endif
