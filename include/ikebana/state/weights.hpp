#pragma once
// A model's weights alone, in files that Python reads and writes.
#include <ikebana/model.hpp>
#include <ikebana/state/check_path.hpp>
#include <ikebana/state/weight_files.hpp>
#include <ikebana/state/weight_names.hpp>
#include <unordered_map>

namespace ikebana {

/// How the names and dtypes of a file correspond to those of a model.
struct WeightOptions {
  /// Gives the file's name for the model's name; empty: the names are the same.
  std::function<std::string(const std::string&)> rename = {};
  /// A name that only the file or only the model has is an error; if false, it is returned.
  bool strict = true;
  /// Weights that are left as they are, such as a head with another number of classes: `"fc.*"`,
  /// by the model's names or, of what the model lacks, the file's. A pattern that matches none is
  /// an error. `save_weights` leaves them out of the file.
  WeightNames skip = {};
  /// Floating-point tensors of another dtype are converted; if false, they are an error, as are
  /// values that the other dtype cannot hold.
  bool cast = false;
  /// Of a recipe that averages the weights, a trainer's `save_weights` writes the average, which
  /// `evaluate` uses, and loading from a trainer's saved state reads it; if false, the weights that
  /// are trained.
  bool averaged = true;
};

/// Names that only the model has (missing) or only the file has (unexpected), and those that were
/// not compared (skipped).
struct UnmatchedWeights {
  std::vector<std::string> missing;     ///< which the file lacks
  std::vector<std::string> unexpected;  ///< which the model lacks
  std::vector<std::string> skipped;     ///< which `skip` names; those that only the file has, last
};

namespace detail {

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

 private:
  static bool is_of_model(const std::string& name) {
    return !name.starts_with(Archive::reserved_prefix);
  }
  /// Takes what `skip` names, in the model or in the file, from what is compared.
  void skip(const std::vector<std::pair<std::string, at::Tensor>>& weights) {
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
  std::set<const void*> skipped_;
  std::vector<std::pair<std::string, at::Tensor>> weights_;  // under their first names
  std::unordered_map<at::TensorImpl*, std::pair<at::Tensor, at::Tensor>> matched_;
  std::set<std::string> used_;
  UnmatchedWeights unmatched_;
  std::string problems_;
};

}  // namespace detail

/// Loads a model's parameters and buffers from any safetensors file, or from a folder or an index
/// of several files as Hugging Face names them. Tied weights need one of their names. Everything is
/// read and compared before anything is written: throws BadState with every mismatch, BadValue for
/// a name to skip that there is not, and BadFile or FileFailed for a file that cannot be read.
/// Costs the file's size in memory.
template <class Model>
UnmatchedWeights load_weights(Model& model, const std::filesystem::path& path,
                              const WeightOptions& options = {}, Files& files = system_files()) {
  detail::check_path(path, "load_weights");
  StateDict all = detail::read_weight_files(files, path);
  return detail::WeightLoader<>(std::move(all), options)
      .load(*detail::module_of(model), path.string());
}

/// Writes a model's parameters and buffers to a safetensors file; tied weights once, under their
/// first name. As durable as a saved state. Throws BadValue if `rename` gives two weights one name,
/// and for a name to skip that there is not.
template <class Model>
void save_weights(Model& model, const std::filesystem::path& path,
                  const WeightOptions& options = {}, Files& files = system_files()) {
  detail::check_path(path, "save_weights");
  StateDict all;
  const auto weights = detail::named_weights(*detail::module_of(model));
  auto seen = detail::skipped_weights("save_weights", options.skip, weights, {});
  for (const auto& [name, t] : weights) {
    if (!seen.insert(t.unsafeGetTensorImpl()).second) continue;
    if (!all.emplace(options.rename ? options.rename(name) : name, t.detach()).second)
      throw BadValue("save_weights: `rename` gives `" + name +
                     "` the name of another weight. Give each weight its own name.");
  }
  save_tensors(path, all, {}, files);
}

}  // namespace ikebana
