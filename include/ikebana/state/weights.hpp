#pragma once
// A model's weights alone, in files that Python reads and writes.
#include <ikebana/model.hpp>
#include <ikebana/state/check_path.hpp>
#include <ikebana/state/saved_state.hpp>
#include <unordered_map>

namespace ikebana {

/// How the names and dtypes of a file correspond to those of a model.
struct WeightOptions {
  /// Gives the file's name for the model's name; empty: the names are the same.
  std::function<std::string(const std::string&)> rename = {};
  /// A name that only the file or only the model has is an error; if false, it is returned.
  bool strict = true;
  /// Floating-point tensors of another dtype are converted; if false, they are an error, as are
  /// values that the other dtype cannot hold.
  bool cast = false;
  /// Of a recipe that averages the weights, a trainer's `save_weights` writes the average, which
  /// `evaluate` uses, and loading from a trainer's saved state reads it; if false, the weights that
  /// are trained.
  bool averaged = true;
};

/// Names that only the model has (missing) or only the file has (unexpected).
struct UnmatchedWeights {
  std::vector<std::string> missing;     ///< which the file lacks
  std::vector<std::string> unexpected;  ///< which the model lacks
};

namespace detail {

/// The files to read for `path`: a file, the file of a folder, or the files that an index names,
/// which must be in the index's folder.
/// A template, as WeightLoader, so that only files that load weights compile them.
template <class = void>
std::vector<Files::Path> weight_files(Files& files, const Files::Path& path) {
  std::error_code ignored;  // if it cannot be examined, opening it reports the error
  if (std::filesystem::is_directory(path, ignored)) {
    const auto single = path / "model.safetensors", index = path / "model.safetensors.index.json";
    if (!files.exists(single) && !files.exists(index)) check_no_pickles(files, path);
    return weight_files(files, files.exists(single) ? single : index);
  }
  if (path.extension() != ".json") return {path};
  auto file = files.open(path);
  std::string text(file->size(), '\0');
  file->read(0, text.data(), text.size());
  std::set<std::string> names;
  Json json(text, 0);
  try {
    json.object("an index of weights", [&](const std::string& key) {
      if (key != "weight_map") return json.skip_value();
      if (!names.empty()) json.fail("the weight_map appears twice");
      json.object("the weight_map", [&](const std::string&) {
        std::string name = json.string();
        if (name.empty() || name == "." || name == ".." ||
            name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
          json.fail("`" + name + "` is not a file name in the index's folder");
        names.insert(std::move(name));
      });
    });
    if (names.empty()) json.fail("its weight_map names no file");
    json.expect_end("the index");
  } catch (const Json::ParseError& error) {
    throw BadFile("load_weights: `" + path.string() + "`, at byte " + std::to_string(error.offset) +
                  ": " + escaped(error.what) + ". Name a .safetensors file or a complete index.");
  }
  std::vector<Files::Path> all;
  for (const auto& name : names) all.push_back(folder_of(path) / name);
  return all;
}

/// Every name of a model's parameters and buffers. Tied ones have several names.
inline std::vector<std::pair<std::string, at::Tensor>> named_weights(torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

/// Compares a model with the tensors of files, and writes only if all of them fit.
template <class = void>
class WeightLoader {
 public:
  WeightLoader(StateDict file, const WeightOptions& options)
      : file_(std::move(file)), options_(options) {}

  UnmatchedWeights load(torch::nn::Module& module, const std::string& path) {
    for (const auto& [name, t] : named_weights(module)) match(name, t);
    for (const auto& [name, t] : weights_)
      if (!found_.count(t.unsafeGetTensorImpl())) unmatched_.missing.push_back(name);
    for (const auto& [name, t] : file_)
      if (!used_.count(name) && !name.starts_with(Archive::reserved_prefix))
        unmatched_.unexpected.push_back(name);
    if (!options_.strict && matched_.empty() && problems_.empty())
      add_problem(name_in_file(weights_.empty() ? "" : weights_[0].first),
                  "is not in it, nor is any other weight of the model");
    if (options_.strict) {
      for (const auto& name : unmatched_.missing) add_problem(name_in_file(name), "is missing");
      for (const auto& name : unmatched_.unexpected)
        add_problem(name, "belongs to no weight of the model");
    }
    if (!problems_.empty())
      throw BadState("load_weights: `" + path + "` does not fit the model: " + problems_ +
                     ". Nothing was changed. Set rename, strict = false or cast = true.");
    at::NoGradGuard no_grad;
    for (const auto& [impl, pair] : matched_) write_elements(pair.first, pair.second);
    return unmatched_;
  }

 private:
  void match(const std::string& name, const at::Tensor& t) {
    auto* impl = t.unsafeGetTensorImpl();
    if (seen_.insert(impl).second) weights_.emplace_back(name, t);
    const std::string key = name_in_file(name);
    auto entry = file_.find(key);
    if (entry == file_.end()) return;
    used_.insert(key);
    if (!options_.averaged)
      if (auto trained = file_.find(Archive::trained_prefix + key); trained != file_.end())
        entry = trained;
    found_.insert(impl);
    const at::Tensor& from = entry->second;
    const bool converts = options_.cast && from.is_floating_point() && t.is_floating_point();
    if (from.sizes() != t.sizes() || (from.scalar_type() != t.scalar_type() && !converts))
      return add_problem(key, "is " + text(from) + ", the model has " + text(t));
    if (converts && overflows(from, t.scalar_type()))
      add_problem(
          key, "has values that " + std::string(c10::toString(t.scalar_type())) + " cannot hold");
    auto [matched, is_new] = matched_.try_emplace(impl, t, from);
    if (!is_new && !same_bits(matched->second.second, from))
      add_problem(key, "differs from the tensor under the other name of the same weight");
  }
  /// Compares bytes, which also works for NaN and for dtypes that LibTorch cannot compare.
  static bool same_bits(const at::Tensor& a, const at::Tensor& b) {
    return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
           (a.nbytes() == 0 ||
            std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
  }
  /// True where a finite value would become infinite.
  static bool overflows(const at::Tensor& from, at::ScalarType type) {
    return from.scalar_type() != type &&
           from.isfinite()
               .logical_and(from.to(type).to(at::kDouble).isfinite().logical_not())
               .any()
               .item<bool>();
  }
  std::string name_in_file(const std::string& name) const {
    return options_.rename ? options_.rename(name) : name;
  }
  static std::string text(const at::Tensor& t) {
    return c10::toString(t.scalar_type()) + c10::str(t.sizes());
  }
  void add_problem(const std::string& name, const std::string& what) {
    problems_ += (problems_.empty() ? "`" : "; `") + escaped(name) + "` " + what;
  }

  StateDict file_;
  const WeightOptions& options_;
  std::set<const void*> seen_, found_;  // weights: all, and those of which the file has a name
  std::vector<std::pair<std::string, at::Tensor>> weights_;  // under their first names
  std::unordered_map<at::TensorImpl*, std::pair<at::Tensor, at::Tensor>> matched_;
  std::set<std::string> used_;
  UnmatchedWeights unmatched_;
  std::string problems_;
};

}  // namespace detail

/// Loads a model's parameters and buffers from any safetensors file, or from a folder or an index
/// of several files as Hugging Face names them. Tied weights need one of their names. Everything is
/// read and compared before anything is written: throws BadState with every mismatch, and BadFile
/// or FileFailed for a file that cannot be read. Costs the file's size in memory.
template <class Model>
UnmatchedWeights load_weights(Model& model, const std::filesystem::path& path,
                              const WeightOptions& options = {}, Files& files = system_files()) {
  detail::check_path(path, "load_weights");
  StateDict all;
  for (const auto& file : detail::weight_files(files, path)) {
    StateDict part = detail::read_whole(files, file, /*require_checksums=*/false).tensors;
    all.merge(part);
    if (!part.empty())
      throw BadFile("load_weights: `" + detail::escaped(part.begin()->first) +
                    "` is in two files of `" + path.string() + "`. Remove one.");
  }
  return detail::WeightLoader<>(std::move(all), options)
      .load(*detail::module_of(model), path.string());
}

/// Writes a model's parameters and buffers to a safetensors file; tied weights once, under their
/// first name. As durable as a saved state. Throws BadValue if `rename` gives two weights one name.
template <class Model>
void save_weights(Model& model, const std::filesystem::path& path,
                  const WeightOptions& options = {}, Files& files = system_files()) {
  detail::check_path(path, "save_weights");
  StateDict all;
  std::set<const void*> seen;
  for (const auto& [name, t] : detail::named_weights(*detail::module_of(model))) {
    if (!seen.insert(t.unsafeGetTensorImpl()).second) continue;
    if (!all.emplace(options.rename ? options.rename(name) : name, t.detach()).second)
      throw BadValue("save_weights: `rename` gives `" + name +
                     "` the name of another weight. Give each weight its own name.");
  }
  save_tensors(path, all, {}, files);
}

}  // namespace ikebana
