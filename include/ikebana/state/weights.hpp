#pragma once
// Saves and loads a model's weights alone, in files that Python reads and writes.
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
  /// Takes one pattern. An empty text is no pattern.
  WeightNames(const std::string& pattern);
  /// Takes one pattern. An empty text or null is no pattern.
  WeightNames(const char* pattern) : WeightNames(std::string(pattern ? pattern : "")) {}
  /// Takes several patterns.
  WeightNames(std::initializer_list<const char*> patterns)
      : patterns_(patterns.begin(), patterns.end()) {}
  /// Takes several patterns.
  WeightNames(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}

  /// Returns the patterns as they were given.
  const std::vector<std::string>& patterns() const { return patterns_; }
  /// Returns whether one of the patterns matches the name.
  bool match(const std::string& name) const;

 private:
  std::vector<std::string> patterns_;
};

/// Options for loading and saving weights: how names and dtypes of a file correspond to the
/// model's.
struct WeightOptions {
  /// Returns the file's name for a name of the model. Empty: the names are the same.
  std::function<std::string(const std::string&)> rename = {};
  /// A name that only the file or only the model has is an error; if false, it is returned.
  bool strict = true;
  /// Weights that are left as they are, such as a head with another number of classes: `"fc.*"`.
  /// Matches the model's names, and the file's names of weights that the model lacks. A pattern
  /// that matches nothing is an error. `save_weights` leaves these weights out of the file.
  WeightNames skip = {};
  /// Floating-point tensors of another dtype are converted; if false, they are an error, as are
  /// values that the other dtype cannot hold.
  bool cast = false;
  /// If a recipe averages the weights, a trainer's `save_weights` writes the average, which
  /// `evaluate` uses, and loading from a trainer's saved state reads it. If false, both use the
  /// trained weights.
  bool averaged = true;
};

/// Options of a trainer's `with_full_weights`.
struct FullWeightOptions {
  /// If a recipe averages the weights, true gives the average, which `evaluate` uses, for reading;
  /// false gives the trained weights.
  bool averaged = false;
};

/// The names of weights that only the model has (missing), that only the file has (unexpected), and
/// that were not compared (skipped).
struct UnmatchedWeights {
  std::vector<std::string> missing;     ///< the names that the file lacks
  std::vector<std::string> unexpected;  ///< the names that the model lacks
  std::vector<std::string>
      skipped;  ///< the names that `skip` matches; names that only the file has come last
};

namespace detail {

/// Reads all tensors of one file, of a folder's file or of an index's files. If several files have
/// a tensor, the index decides which one counts. Throws BadFile for a tensor that is missing from
/// the index's file, and for one that is in two files and not in the index.
StateDict read_weight_files(Files& files, const Files::Path& path);

/// Returns the weights that `skip` matches. `weights` has each weight under all of its names;
/// `others` are further names that `skip` may match. Throws BadValue for a pattern that matches
/// nothing, and if `skip` matches one name of a weight and not another.
std::set<const void*> skipped_weights(
    const std::string& call, const WeightNames& skip,
    const std::vector<std::pair<std::string, at::Tensor>>& weights,
    const std::set<std::string>& others);

/// Returns every name of a model's parameters and buffers. Tied weights have several names.
std::vector<std::pair<std::string, at::Tensor>> named_weights(torch::nn::Module& module);

/// Compares a model with the tensors of files, and writes only if all of them fit.
class WeightLoader {
 public:
  WeightLoader(StateDict file, const WeightOptions& options)
      : file_(std::move(file)), options_(options) {}

  UnmatchedWeights load(torch::nn::Module& module, const std::string& path);

 private:
  static bool is_of_model(const std::string& name);
  /// Excludes the weights that `skip` matches, in the model or in the file, from the comparison.
  void skip(const std::vector<std::pair<std::string, at::Tensor>>& weights);
  void match(const std::string& name, const at::Tensor& t);
  /// Compares bytes, because LibTorch cannot compare some dtypes, and NaN is not equal to itself.
  static bool same_bits(const at::Tensor& a, const at::Tensor& b);
  /// Returns whether a finite value would become infinite.
  static bool overflows(const at::Tensor& from, at::ScalarType type);
  std::string name_in_file(const std::string& name) const;
  static std::string text(const at::Tensor& t);
  void add_problem(const std::string& name, const std::string& what);

  StateDict file_;
  const WeightOptions& options_;
  std::set<const void*> seen_, found_;  // all weights; the weights that the file has
  std::set<const void*> skipped_;
  std::vector<std::pair<std::string, at::Tensor>> weights_;  // the weights, under their first names
  std::unordered_map<at::TensorImpl*, std::pair<at::Tensor, at::Tensor>> matched_;
  std::set<std::string> used_;
  UnmatchedWeights unmatched_;
  std::string problems_;
};

}  // namespace detail

/// Loads a model's parameters and buffers from any safetensors file, or from a folder or an index
/// of several files as Hugging Face names them. The file needs one of the names of tied weights.
/// Everything is read and compared before anything is written: throws BadState with every mismatch,
/// BadValue for a pattern of `skip` that matches nothing, and BadFile or FileFailed for a file that
/// cannot be read. Costs the file's size in memory.
template <class Model>
UnmatchedWeights load_weights(Model& model, const std::filesystem::path& path,
                              const WeightOptions& options = {}, Files& files = system_files()) {
  detail::check_path(path, "load_weights");
  StateDict all = detail::read_weight_files(files, path);
  return detail::WeightLoader(std::move(all), options)
      .load(*detail::module_of(model), path.string());
}

/// Writes a model's parameters and buffers to a safetensors file. Tied weights are written once,
/// under their first name. The file is as durable as a saved state. Throws BadValue if `rename`
/// gives two weights one name, and for a pattern of `skip` that matches nothing.
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
