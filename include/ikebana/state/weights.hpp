#pragma once
// A model's weights alone, in files that Python reads and writes.
#include <ikebana/error.hpp>
#include <ikebana/model.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/saved_state.hpp>
#include <initializer_list>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana {

/// Names by shell patterns, in which `*` also matches dots: `"fc.*"`, or several of them,
/// `{"fc.*", "head.*"}`. Without a pattern it matches nothing.
class WeightNames {
 public:
  /// Matches nothing.
  WeightNames() = default;
  /// One pattern; an empty one is none.
  WeightNames(const std::string& pattern);
  /// One pattern; an empty one, or null, is none.
  WeightNames(const char* pattern) : WeightNames(std::string(pattern ? pattern : "")) {}
  /// Several patterns.
  WeightNames(std::initializer_list<const char*> patterns)
      : patterns_(patterns.begin(), patterns.end()) {}
  /// Several patterns.
  WeightNames(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  /// The patterns as they were given.
  const std::vector<std::string>& patterns() const { return patterns_; }
  /// Whether one of the patterns matches the name.
  bool match(const std::string& name) const;

 private:
  std::vector<std::string> patterns_;
};

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

/// All tensors of these files. A tensor that is in several counts where the index says. Throws
/// BadFile for one that is not there, and for one in two files of which the index says nothing.
StateDict read_weight_files(Files& files, const Files::Path& path);

/// The weights, given under all of their names, that `skip` matches; `others` are further names
/// that it may match. Throws BadValue for a pattern that matches none, and for a weight of which
/// one name is matched and another is not.
std::set<const void*> skipped_weights(
    const std::string& call, const WeightNames& skip,
    const std::vector<std::pair<std::string, at::Tensor>>& weights,
    const std::set<std::string>& others);

/// Every name of a model's parameters and buffers. Tied ones have several names.
std::vector<std::pair<std::string, at::Tensor>> named_weights(torch::nn::Module& module);

/// Compares a model with the tensors of files, and writes only if all of them fit.
class WeightLoader {
 public:
  WeightLoader(StateDict file, const WeightOptions& options)
      : file_(std::move(file)), options_(options) {}

  UnmatchedWeights load(torch::nn::Module& module, const std::string& path);

 private:
  static bool is_of_model(const std::string& name);
  /// Takes what `skip` names, in the model or in the file, from what is compared.
  void skip(const std::vector<std::pair<std::string, at::Tensor>>& weights);
  void match(const std::string& name, const at::Tensor& t);
  /// Compares bytes, which also works for NaN and for dtypes that LibTorch cannot compare.
  static bool same_bits(const at::Tensor& a, const at::Tensor& b);
  /// True where a finite value would become infinite.
  static bool overflows(const at::Tensor& from, at::ScalarType type);
  std::string name_in_file(const std::string& name) const;
  static std::string text(const at::Tensor& t);
  void add_problem(const std::string& name, const std::string& what);

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
  return detail::WeightLoader(std::move(all), options)
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

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/weights.ipp>
#endif
