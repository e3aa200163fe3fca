#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/foreign_file.hpp>
#include <ikebana/state/files/weight_files.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/saved_state.hpp>
#include <set>

namespace ikebana::detail {

/// For a folder without the usual names: throws BadFile, which names what it has.
inline void no_weights_in(Files& files, const Files::Path& folder) {
  check_no_pickles(files, folder);
  std::vector<std::string> others;
  for (const auto& name : files.list(folder))
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      others.push_back(escaped(name));
  std::sort(others.begin(), others.end());
  const std::size_t count = others.size();
  throw BadFile("load_weights: the folder `" + folder.string() +
                "` has neither model.safetensors nor model.safetensors.index.json" +
                (count == 0 ? std::string(". Name a file, or a folder that has one of them.")
                            : ", but " + quoted_list(others) + (count > 3 ? " and others" : "") +
                                  ". Name that file itself, as in load_weights(model, \"" +
                                  (folder / others[0]).string() + "\")."));
}

/// Reads the weight_map of an index, whose files must be in its own folder.
inline std::map<std::string, std::string> read_index(Json& json) {
  std::map<std::string, std::string> file_of;
  bool has_map = false;
  json.object("an index of weights", [&](const std::string& key) {
    if (key != "weight_map") return json.skip_value();
    if (has_map) json.fail("the weight_map appears twice");
    has_map = true;
    json.object("the weight_map", [&](const std::string& tensor) {
      std::string name = json.string();
      if (name.empty() || name == "." || name == ".." ||
          name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
        json.fail("`" + name + "` is not a file name in the index's folder");
      if (!file_of.emplace(tensor, std::move(name)).second)
        json.fail("`" + Json::excerpt(tensor) + "` appears twice");
    });
  });
  if (file_of.empty()) json.fail("its weight_map names no file");
  json.expect_end("the index");
  return file_of;
}

IKEBANA_INLINE WeightFiles weight_files(Files& files, const Files::Path& path) {
  std::error_code ignored;  // if it cannot be examined, opening it reports the error
  if (std::filesystem::is_directory(path, ignored)) {
    const auto single = path / "model.safetensors", index = path / "model.safetensors.index.json";
    if (files.exists(single)) return weight_files(files, single);
    if (!files.exists(index)) no_weights_in(files, path);
    return weight_files(files, index);
  }
  if (path.extension() != ".json") return {{path}, {}};
  auto file = files.open(path);
  std::string text(file->size(), '\0');
  file->read(0, text.data(), text.size());
  Json json(text, 0);
  WeightFiles found;
  try {
    found.file_of = read_index(json);
  } catch (const Json::ParseError& error) {
    throw BadFile("load_weights: `" + path.string() + "`, at byte " + std::to_string(error.offset) +
                  ": " + escaped(error.what) + ". Name a .safetensors file or a complete index.");
  }
  std::set<std::string> names;
  for (const auto& [tensor, name] : found.file_of) names.insert(name);
  for (const auto& name : names) found.paths.push_back(folder_of(path) / name);
  return found;
}

IKEBANA_INLINE StateDict read_weight_files(Files& files, const Files::Path& path) {
  const WeightFiles from = weight_files(files, path);
  StateDict all;
  for (const auto& file : from.paths) {
    StateDict part = read_whole(files, file, /*require_checksums=*/false).tensors;
    std::erase_if(part, [&](const auto& item) {
      const auto listed = from.file_of.find(item.first);
      return listed != from.file_of.end() && listed->second != file.filename().string();
    });
    all.merge(part);
    if (!part.empty())
      throw BadFile("load_weights: `" + escaped(part.begin()->first) + "` is in two files of `" +
                    path.string() + "`, whose weight_map names it in none. Remove one.");
  }
  for (const auto& [name, file] : from.file_of)
    if (!all.count(name))
      throw BadFile("load_weights: the weight_map of `" + path.string() + "` says that `" +
                    escaped(name) + "` is in `" + escaped(file) +
                    "`, which does not have it. Use the index that belongs to these files.");
  return all;
}

}  // namespace ikebana::detail
