#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/name_pattern.hpp>
#include <ikebana/state/files/foreign_file.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/weights.hpp>
#include <map>
#include <set>

namespace ikebana {

IKEBANA_INLINE WeightNames::WeightNames(const std::string& pattern) {
  if (!pattern.empty()) patterns_ = {pattern};
}

IKEBANA_INLINE bool WeightNames::match(const std::string& name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const auto& one) { return detail::matches_pattern(name, one); });
}

}  // namespace ikebana

namespace ikebana::detail {

/// Throws BadFile for a folder without the usual names; the error names the files that it has.
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

/// The files to read, and for an index the file that has each tensor.
struct WeightFiles {
  std::vector<Files::Path> paths;
  std::map<std::string, std::string> file_of;
};

inline WeightFiles weight_files(Files& files, const Files::Path& path) {
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

IKEBANA_INLINE std::set<const void*> skipped_weights(
    const std::string& call, const WeightNames& skip,
    const std::vector<std::pair<std::string, at::Tensor>>& weights,
    const std::set<std::string>& others) {
  std::vector<std::string> names(others.begin(), others.end());
  std::set<const void*> skipped;
  for (const auto& [name, t] : weights) {
    names.push_back(name);
    if (skip.match(name)) skipped.insert(t.unsafeGetTensorImpl());
  }
  for (const auto& pattern : skip.patterns())
    if (std::none_of(names.begin(), names.end(),
                     [&](const auto& name) { return matches_pattern(name, pattern); }))
      throw BadValue(call + ": skip matches no weight" + nearest_names({pattern}, names) +
                     ". Correct the pattern, or leave it out.");
  for (const auto& [name, t] : weights)
    if (skipped.count(t.unsafeGetTensorImpl()) && !skip.match(name))
      throw BadValue(call + ": skip matches one name of a weight, and not its other name `" +
                     escaped(name) + "`. Give both, or none.");
  return skipped;
}

IKEBANA_INLINE std::vector<std::pair<std::string, at::Tensor>> named_weights(
    torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

IKEBANA_INLINE UnmatchedWeights WeightLoader::load(torch::nn::Module& module,
                                                   const std::string& path) {
  const auto all = named_weights(module);
  skip(all);
  for (const auto& [name, t] : all)
    if (!skipped_.count(t.unsafeGetTensorImpl())) match(name, t);
  for (const auto& [name, t] : weights_)
    if (!found_.count(t.unsafeGetTensorImpl())) unmatched_.missing.push_back(name);
  for (const auto& [name, t] : file_)
    if (!used_.count(name) && is_of_model(name)) unmatched_.unexpected.push_back(name);
  const bool may_lack = !options_.strict || !options_.skip.patterns().empty();
  if (may_lack && matched_.empty() && problems_.empty())
    add_problem(name_in_file(weights_.empty() ? "" : weights_[0].first),
                "is not in it, nor is any other weight of the model");
  if (options_.strict) {
    for (const auto& name : unmatched_.missing) add_problem(name_in_file(name), "is missing");
    for (const auto& name : unmatched_.unexpected)
      add_problem(name, "belongs to no weight of the model");
  }
  if (!problems_.empty())
    throw BadState("load_weights: `" + path + "` does not fit the model: " + problems_ +
                   ". Nothing was changed. Set rename, strict = false or cast = true, or leave "
                   "weights as they are: skip = \"fc.*\".");
  at::NoGradGuard no_grad;
  for (const auto& [impl, pair] : matched_) write_elements(pair.first, pair.second);
  return unmatched_;
}

IKEBANA_INLINE bool WeightLoader::is_of_model(const std::string& name) {
  return !name.starts_with(detail::EntryNames::reserved_prefix);
}

IKEBANA_INLINE void WeightLoader::skip(
    const std::vector<std::pair<std::string, at::Tensor>>& weights) {
  if (options_.skip.patterns().empty()) return;
  std::set<std::string> only_in_file;
  for (const auto& [name, t] : file_)
    if (is_of_model(name)) only_in_file.insert(name);
  for (const auto& [name, t] : weights) only_in_file.erase(name_in_file(name));
  skipped_ = skipped_weights("load_weights", options_.skip, weights, only_in_file);
  for (const auto& [name, t] : weights)
    if (skipped_.count(t.unsafeGetTensorImpl())) {
      used_.insert(name_in_file(name));
      unmatched_.skipped.push_back(name);
    }
  for (const auto& name : only_in_file)
    if (options_.skip.match(name)) used_.insert(name), unmatched_.skipped.push_back(name);
  if (std::ranges::all_of(weights, [&](const auto& item) {
        return skipped_.count(item.second.unsafeGetTensorImpl()) != 0;
      }))
    throw BadValue("load_weights: skip matches every weight of the model. Give fewer patterns.");
}

IKEBANA_INLINE void WeightLoader::match(const std::string& name, const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (seen_.insert(impl).second) weights_.emplace_back(name, t);
  const std::string key = name_in_file(name);
  auto entry = file_.find(key);
  if (entry == file_.end()) return;
  used_.insert(key);
  if (!options_.averaged)
    if (auto trained = file_.find(detail::EntryNames::trained_prefix + key); trained != file_.end())
      entry = trained;
  found_.insert(impl);
  const at::Tensor& from = entry->second;
  const bool converts = options_.cast && from.is_floating_point() && t.is_floating_point();
  if (from.sizes() != t.sizes() || (from.scalar_type() != t.scalar_type() && !converts))
    return add_problem(key, "is " + text(from) + ", the model has " + text(t));
  if (converts && overflows(from, t.scalar_type()))
    add_problem(key,
                "has values that " + std::string(c10::toString(t.scalar_type())) + " cannot hold");
  auto [matched, is_new] = matched_.try_emplace(impl, t, from);
  if (!is_new && !same_bits(matched->second.second, from))
    add_problem(key, "differs from the tensor under the other name of the same weight");
}

IKEBANA_INLINE bool WeightLoader::same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

IKEBANA_INLINE bool WeightLoader::overflows(const at::Tensor& from, at::ScalarType type) {
  return from.scalar_type() != type &&
         from.isfinite()
             .logical_and(from.to(type).to(at::kDouble).isfinite().logical_not())
             .any()
             .item<bool>();
}

IKEBANA_INLINE std::string WeightLoader::name_in_file(const std::string& name) const {
  return options_.rename ? options_.rename(name) : name;
}

IKEBANA_INLINE std::string WeightLoader::text(const at::Tensor& t) {
  return c10::toString(t.scalar_type()) + c10::str(t.sizes());
}

IKEBANA_INLINE void WeightLoader::add_problem(const std::string& name, const std::string& what) {
  problems_ += (problems_.empty() ? "`" : "; `") + escaped(name) + "` " + what;
}

}  // namespace ikebana::detail
