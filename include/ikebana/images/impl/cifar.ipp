#pragma once
#include <cstring>
#include <ikebana/images/cifar.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::images::detail {

inline constexpr std::int64_t cifar_pixels = 3 * 32 * 32;

/// The form of a set's files.
struct CifarForm {
  const char* name;    ///< the name of the set
  const char* folder;  ///< in which its archive unpacks
  std::vector<std::string> files;
  std::string class_file;
  std::int64_t labels, label;  ///< bytes of labels before an image, and the one that is read
  std::int64_t classes;
};

/// Returns the folder that has one of the files.
inline std::filesystem::path cifar_folder(const CifarForm& form,
                                          const std::filesystem::path& given) {
  const auto has_any = [&](const std::filesystem::path& folder, const std::string& ending) {
    for (const std::string& file : form.files)
      if (std::error_code code; std::filesystem::exists(folder / (file + ending), code))
        return true;
    return false;
  };
  for (const auto& folder : {given, given / form.folder})
    if (has_any(folder, ".bin")) return folder;
  const bool is_python = has_any(given, "") || has_any(given / "cifar-10-batches-py", "") ||
                         has_any(given / "cifar-100-python", "");
  throw BadFile(std::string(form.name) + ": there is no `" + form.files[0] + ".bin` in `" +
                given.string() + "` or in `" + form.folder + "` in it. " +
                (is_python ? "These are the files for Python. Get the binary version for C."
                           : "Name the folder of the binary version's files."));
}

/// Reads the lines of a file that are not empty, the names of the classes. `folder` may lack it, as
/// some copies do: the names are then numbers.
inline std::vector<std::string> cifar_classes(const CifarForm& form,
                                              const std::filesystem::path& folder) {
  std::vector<std::string> names;
  const std::filesystem::path path = folder / form.class_file;
  if (std::error_code code; std::filesystem::exists(path, code)) {
    ikebana::detail::PosixInputFile file(path);
    std::string text(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, text.data(), text.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) names.push_back(std::move(line));
      at = end + 1;
    }
    if (std::int64_t(names.size()) != form.classes)
      throw BadFile(std::string(form.name) + ": `" + path.string() + "` has " +
                    std::to_string(names.size()) + " names, and there are " +
                    std::to_string(form.classes) + " classes. Replace the file.");
  } else {
    for (std::int64_t i = 0; i < form.classes; ++i) names.push_back(std::to_string(i));
  }
  return names;
}

/// Adds the images of a file. Each is a record of its labels and its pixels.
inline void add_cifar_file(const CifarForm& form, const std::filesystem::path& path,
                           std::vector<at::Tensor>& images, std::vector<at::Tensor>& targets) {
  ikebana::detail::PosixInputFile file(path);
  const auto bytes = static_cast<std::int64_t>(file.size()), record = form.labels + cifar_pixels;
  if (bytes == 0 || bytes % record != 0)
    throw BadFile(std::string(form.name) + ": `" + path.string() + "` has " +
                  std::to_string(bytes) + " bytes, and an image with its label has " +
                  std::to_string(record) + ", so it is cut off or no such file. Replace it.");
  const at::Tensor records = at::empty({bytes / record, record}, at::kByte);
  file.read(0, records.mutable_data_ptr(), static_cast<std::size_t>(bytes));
  const at::Tensor labels = records.select(1, form.label).to(at::kLong);
  if (const auto most = labels.max().item<std::int64_t>(); most >= form.classes)
    throw BadFile(std::string(form.name) + ": `" + path.string() + "` has the label " +
                  std::to_string(most) + " in image " +
                  std::to_string(labels.argmax().item<std::int64_t>()) + ", and there are " +
                  std::to_string(form.classes) + " classes. Replace the file.");
  images.push_back(records.narrow(1, form.labels, cifar_pixels));
  targets.push_back(labels);
}

inline ImageArrays read_cifar(const CifarForm& form, const std::filesystem::path& given) {
  const std::filesystem::path folder = cifar_folder(form, given);
  std::vector<at::Tensor> images, targets;
  for (const std::string& file : form.files) {
    const std::filesystem::path path = folder / (file + ".bin");
    if (std::error_code code; std::filesystem::exists(path, code))
      add_cifar_file(form, path, images, targets);
  }
  return {at::cat(images).view({-1, 3, 32, 32}), at::cat(targets), cifar_classes(form, folder)};
}

inline ImageArrays read_cifar10(const std::filesystem::path& folder,
                                const CIFAR10Options& options) {
  CifarForm form{"CIFAR10", "cifar-10-batches-bin", {"test_batch"}, "batches.meta.txt", 1, 0, 10};
  if (options.train)
    form.files = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  return read_cifar(form, folder);
}

inline ImageArrays read_cifar100(const std::filesystem::path& folder,
                                 const CIFAR100Options& options) {
  CifarForm form{"CIFAR100", "cifar-100-binary", {options.train ? "train" : "test"}, {}, 2, 0, 20};
  form.class_file = options.fine_labels ? "fine_label_names.txt" : "coarse_label_names.txt";
  if (options.fine_labels) form.label = 1, form.classes = 100;
  return read_cifar(form, folder);
}

}  // namespace ikebana::images::detail
