#pragma once
// The parameters and buffers of a model that is exported, and the paths of its modules.
#include <ikebana/program/graph.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ikebana::detail::exported {

using detail::module_part;

/// A parameter or buffer under one of its names.
struct NamedWeight {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = true;
  std::vector<std::string> modules;  ///< paths of the modules that have it; a tied one has several
};

/// All weights of a model, each under each of its names, as in Python's state dict; and its
/// modules.
class ModelWeights {
 public:
  /// Throws BadModel for a name that Python's modules do not take.
  explicit ModelWeights(torch::nn::Module& root);

  const std::vector<NamedWeight>& all() const { return all_; }
  /// The path and the type of each module, the root first, with an empty path.
  const std::vector<std::pair<std::string, std::string>>& modules() const { return modules_; }
  /// The path of a module; null if the model does not have it.
  const std::string* path_of(const torch::nn::Module* module) const;

 private:
  std::vector<NamedWeight> all_;
  std::vector<std::pair<std::string, std::string>> modules_;
  std::unordered_map<const torch::nn::Module*, std::string> paths_;
};

/// True if the name is one of `names`, each with a space on each side.
bool is_in(std::string_view names, const std::string& name);
/// True for a keyword of Python.
bool is_keyword_of_python(const std::string& name);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/weights.ipp>
#endif
