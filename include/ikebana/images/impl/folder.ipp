#pragma once
#include <algorithm>
#include <ikebana/images/folder.hpp>

namespace ikebana::images::detail {

[[noreturn]] inline void throw_folder(const std::filesystem::path& root, const std::string& what) {
  throw BadFile("ImageFolder: `" + root.string() + "` " + what);
}

/// Refuses a folder whose folders are not classes but the parts of a dataset.
inline void check_no_parts(const std::filesystem::path& root,
                           const std::vector<std::string>& folders) {
  const std::vector<std::string> parts = {"train",      "training", "val",    "valid",
                                          "validation", "test",     "testing"};
  for (const std::string& name : folders)
    if (std::find(parts.begin(), parts.end(), name) == parts.end()) return;
  if (folders.size() > 1)
    throw_folder(root, "holds `" + folders[0] + "` and `" + folders[1] +
                           "`, which are parts of a dataset and not classes. Name one of them, `" +
                           (root / folders[0]).string() + "`.");
}

inline void find_classes(const std::filesystem::path& root, const ImageFolderOptions& options,
                         FolderIndex& index) {
  const ikebana::detail::FolderNames names = ikebana::detail::names_in(root);
  if (names.folders.empty())
    throw_folder(root, names.files.empty()
                           ? "is empty. It must hold one folder per class."
                           : "holds files and no folders. Make one folder per class, or use "
                             "FileDataset for images without classes.");
  index.classes = options.classes;
  if (index.classes.empty()) {
    check_no_parts(root, names.folders);
    index.classes = names.folders;
  }
  for (const std::string& name : index.classes)
    if (!index.class_to_idx.emplace(name, index.class_to_idx.size()).second)
      throw BadValue("ImageFolder: the class `" + name + "` is twice in the classes. Remove one.");
  for (const std::string& name : names.folders)
    if (!index.class_to_idx.contains(name))
      throw_folder(root,
                   "holds the folder `" + name +
                       "`, which is none of the given classes. Add it to them, or remove it.");
}

/// Adds the images of a class. Returns the name of a file in another format of images, or nothing.
inline std::string add_class(const std::filesystem::path& folder, std::int64_t target,
                             const std::vector<std::string>& extensions, FolderIndex& index) {
  static const std::vector<std::string> others = {".bmp", ".gif", ".webp", ".tif",  ".tiff",
                                                  ".ppm", ".pgm", ".heic", ".avif", ".jp2"};
  std::string other;
  for (const ikebana::detail::FilesOfFolder& files : ikebana::detail::files_below(folder))
    for (const std::string& name : files.names) {
      std::string path = (std::filesystem::path(files.folder) / name).string();
      if (ikebana::detail::has_extension(name, extensions))
        index.samples.push_back({std::move(path), target});
      else if (other.empty() && ikebana::detail::has_extension(name, others))
        other = std::move(path);
    }
  return other;
}

inline FolderIndex index_folder(const std::filesystem::path& root,
                                const ImageFolderOptions& options) {
  const bool by_default = options.extensions.empty();
  const std::vector<std::string> extensions =
      by_default ? std::vector<std::string>{".jpg", ".jpeg", ".jpe", ".jfif", ".png"}
                 : ikebana::detail::checked_extensions(options.extensions);
  FolderIndex index;
  find_classes(root, options, index);
  for (std::size_t i = 0; i < index.classes.size(); ++i) {
    const std::filesystem::path folder = root / index.classes[i];
    const std::size_t before = index.samples.size();
    std::string other;
    if (std::error_code code; std::filesystem::exists(folder, code))
      other = add_class(folder, static_cast<std::int64_t>(i), extensions, index);
    if (by_default && !other.empty())
      throw_folder(root, "holds `" + other +
                             "`, and JPEG and PNG are decoded. Convert such files, or name the "
                             "extensions to take: {.extensions = {\".jpg\"}}.");
    if (index.samples.size() == before && !options.allow_empty)
      throw_folder(root, "has no image of the class `" + index.classes[i] + "` with an ending of " +
                             c10::Join(", ", extensions) +
                             ". Add some, remove the folder, or set allow_empty.");
  }
  if (index.samples.empty()) throw_folder(root, "has no images. Check the path.");
  return index;
}

}  // namespace ikebana::images::detail
