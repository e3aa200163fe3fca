#pragma once
// Defines the files of a state that several ranks saved: one for each rank, and the manifest at the
// state's path, which names them. The manifest is written last, and replaced at once.
#include <cstdint>
#include <ikebana/error.hpp>
#include <ikebana/state/files/safetensors_format.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

inline constexpr const char *ranks_key = "ikebana.ranks",  // the number of files
    *file_prefix = "ikebana.file.";                        // followed by the rank

/// A file of one rank: its name, in the folder of the manifest, and the checksum of its header,
/// which contains the checksums of its tensors.
struct RankFile {
  std::string name, checksum;
};

/// Returns `state.safetensors.1f2e3d4c5b6a7988.rank-2-of-4`. Each save has a token of its own, so
/// that it overwrites no file of the save before.
std::string rank_file_name(const Files::Path& state, const std::string& token, std::int64_t rank,
                           std::int64_t ranks);

/// Returns the name of the state that a file belongs to, if `rank_file_name` made the file's name
/// or if an interrupted save left the file.
std::optional<std::string> state_of_rank_file(std::string_view name);

/// Returns the metadata of a manifest.
Metadata with_files(Metadata metadata, const std::vector<RankFile>& files);

/// Returns the files that a manifest names; no value if the file is not a manifest. Throws BadFile
/// for a forged one.
std::optional<std::vector<RankFile>> files_of(const FileHeader& header, const Files::Path& path);

/// Removes the files of ranks that no manifest in the folder names any more, from older or
/// interrupted saves of the states for which `is_ours(name)` is true. If a manifest cannot be read,
/// all files stay.
void remove_unnamed(Files& files, const Files::Path& folder,
                    c10::function_ref<bool(const std::string& name)> is_ours);
/// Does so for the files of one state.
void remove_unnamed(Files& files, const Files::Path& state);
/// Returns the files that the manifest at `path` names; an empty list if it is missing, damaged or
/// not a manifest. Reads the header of small files alone, because manifests are small.
std::vector<RankFile> named_files(Files& files, const Files::Path& path);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/rank_files.ipp>
#endif
