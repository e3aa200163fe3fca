#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/foreign_file.hpp>
#include <string_view>

namespace ikebana::detail {

/// Says how to convert a file that torch.save has written to one that is read here.
inline std::string convert_pickle(const std::string& from, const std::string& to) {
  return "Convert it: python3 scripts/pth_to_safetensors.py " + from + " " + to;
}

/// Says how to write NumPy's arrays, which are given as a dict, to such a file.
inline std::string save_arrays(const std::string& arrays) {
  return "from safetensors.numpy import save_file; save_file(" + arrays + ", 'arrays.safetensors')";
}

/// Reads the end of a zip archive, which lists its contents; enough names to tell who wrote it.
inline std::string end_of_archive(InputFile& file) {
  const std::uint64_t size = file.size(), length = std::min<std::uint64_t>(size, 1 << 20);
  std::string end(length, '\0');
  file.read(size - length, end.data(), end.size());
  return end;
}

/// Describes a file that cannot be read as safetensors, and what to do with it. Returns an empty
/// text if its format is not a common one of weights.
inline std::string foreign_format(InputFile& file, const std::string& path) {
  std::string head(std::min<std::uint64_t>(file.size(), 6), '\0');
  file.read(0, head.data(), head.size());
  const std::string_view begin = head;
  if (begin.starts_with("GGUF"))
    return "is a GGUF file, whose weights are quantised and in another order. Convert it: python3 "
           "scripts/gguf_to_safetensors.py " +
           path + " FOLDER, and load FOLDER";
  if (begin.size() >= 4 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5)
    return "is a pickle, as torch.save wrote before PyTorch 1.6. " +
           convert_pickle(path, "weights.safetensors");
  if (begin == "\x93NUMPY")
    return "is an array of NumPy. Convert it in Python: " +
           save_arrays("{'array': numpy.load('" + path + "')}");
  if (!begin.starts_with("PK\x03\x04")) return "";
  const std::string end = end_of_archive(file);
  if (end.find("/constants.pkl") != end.npos)
    return "is a TorchScript archive, which holds a program. Write its weights in Python, "
           "torch.save(torch.jit.load(path).state_dict(), \"weights.pth\"), and convert those: "
           "python3 scripts/pth_to_safetensors.py weights.pth weights.safetensors";
  if (end.find("/data.pkl") != end.npos)
    return "is a file of torch.save, a pickle in a zip archive. " +
           convert_pickle(path, "weights.safetensors");
  if (end.find(".npy") != end.npos)
    return "is an archive of NumPy's arrays. Convert it in Python: " +
           save_arrays("dict(numpy.load('" + path + "'))");
  return "is a zip archive. If torch.save wrote it, it was cut off; use another copy";
}

IKEBANA_INLINE void check_not_foreign(InputFile& file, const Files::Path& path) {
  const std::string what = foreign_format(file, path.string());
  if (!what.empty())
    throw BadFile("load: `" + path.string() + "` " + what +
                  ". Weights are read from safetensors files alone, which hold no code.");
}

IKEBANA_INLINE void check_no_pickles(Files& files, const Files::Path& folder) {
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (files.exists(folder / name))
      throw BadFile("load: the folder `" + folder.string() + "` has `" + name +
                    "`, which torch.save wrote, and no model.safetensors. " +
                    convert_pickle((folder / "pytorch_model.bin").string(),
                                   (folder / "model.safetensors").string()) +
                    "; of an index, convert each file that it names.");
}

}  // namespace ikebana::detail
