#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/files/find_files.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE FolderNames names_in(const std::filesystem::path& folder) {
  std::error_code code;
  FolderNames names;
  std::filesystem::directory_iterator at(folder, code);
  for (; !code && at != std::filesystem::directory_iterator(); at.increment(code)) {
    std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code vanished;  // also a link to nothing, which is listed as a file
    (at->is_directory(vanished) ? names.folders : names.files).push_back(std::move(name));
  }
  if (code) file_failed("list", folder, code.value());
  std::sort(names.folders.begin(), names.folders.end());
  std::sort(names.files.begin(), names.files.end());
  return names;
}

/// Throws BadFile if `folder` is a link to a folder above it. `above` are those, the root first.
inline void check_no_cycle(const std::filesystem::path& folder,
                           const std::vector<std::filesystem::path>& above) {
  std::error_code code;
  if (!std::filesystem::is_symlink(folder, code)) return;
  for (const auto& other : above)
    if (std::filesystem::equivalent(folder, other, code))
      throw BadFile("files: `" + folder.string() + "` is a link to `" + other.string() +
                    "`, which contains it, so its files would be listed again and again. Remove "
                    "the link.");
}

inline void add_files_below(std::vector<std::filesystem::path>& above,
                            std::vector<FilesOfFolder>& all) {
  const std::filesystem::path folder = above.back();
  FolderNames names = names_in(folder);
  all.push_back({folder.string(), std::move(names.files)});
  for (const std::string& name : names.folders) {
    check_no_cycle(folder / name, above);
    above.push_back(folder / name);
    add_files_below(above, all);
    above.pop_back();
  }
}

IKEBANA_INLINE std::vector<FilesOfFolder> files_below(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> above{root};
  std::vector<FilesOfFolder> all;
  add_files_below(above, all);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.folder < b.folder; });
  return all;
}

inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

IKEBANA_INLINE bool has_extension(std::string_view name,
                                  const std::vector<std::string>& extensions) {
  for (const std::string& extension : extensions)
    if (name.size() > extension.size() &&
        lower_case(std::string(name.substr(name.size() - extension.size()))) == extension)
      return true;
  return false;
}

IKEBANA_INLINE std::vector<std::string> checked_extensions(std::vector<std::string> extensions) {
  for (std::string& extension : extensions) {
    if (extension.size() < 2 || extension[0] != '.')
      throw BadValue("files: the extension `" + extension +
                     "` does not begin with a point. Write it as `.jpg`.");
    extension = lower_case(std::move(extension));
  }
  return extensions;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::vector<std::filesystem::path> find_files(
    const std::filesystem::path& root, const std::vector<std::string>& extensions) {
  const std::vector<std::string> endings = detail::checked_extensions(extensions);
  std::vector<std::filesystem::path> paths;
  for (const detail::FilesOfFolder& files : detail::files_below(root))
    for (const std::string& name : files.names)
      if (endings.empty() || detail::has_extension(name, endings))
        paths.push_back(std::filesystem::path(files.folder) / name);
  return paths;
}

}  // namespace ikebana
