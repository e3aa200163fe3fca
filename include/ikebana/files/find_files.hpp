#pragma once
// Lists the files below a folder.
#include <filesystem>
#include <ikebana/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana {

/// Lists the files below a folder whose names end in one of `extensions`, such as `.jpg`, in lower
/// or upper case; all files if the list is empty. The order is that of Python's
/// `sorted(os.walk(root))`: by folder, then by name, as bytes. Leaves out files and folders whose
/// names begin with a point. Follows links. Costs one reading of each folder. Throws FileFailed for
/// a folder that cannot be read, BadValue for an extension without its point, BadFile for a link
/// that leads back to a folder above it.
std::vector<std::filesystem::path> find_files(const std::filesystem::path& root,
                                              const std::vector<std::string>& extensions = {});

}  // namespace ikebana

namespace ikebana::detail {

/// The names in a folder that are no hidden ones, in order.
struct FolderNames {
  std::vector<std::string> folders, files;
};
FolderNames names_in(const std::filesystem::path& folder);

/// The files of one folder.
struct FilesOfFolder {
  std::string folder;
  std::vector<std::string> names;
};
/// Returns the files of a folder and of all folders below it, sorted by folder and by name.
std::vector<FilesOfFolder> files_below(const std::filesystem::path& root);

/// Returns whether a name ends in one of the extensions. They are in lower case.
bool has_extension(std::string_view name, const std::vector<std::string>& extensions);
/// Returns the extensions in lower case. Throws BadValue for one without its point.
std::vector<std::string> checked_extensions(std::vector<std::string> extensions);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/find_files.ipp>
#endif
