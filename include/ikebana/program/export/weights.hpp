#pragma once
// Finds the parameters and buffers of a model that is exported, and the paths of its modules.
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
  std::vector<std::string> modules;  ///< the paths of the modules that have it; a tied weight has
                                     ///< several
};

/// All weights of a model, each under each of its names, as in Python's state dict, and the modules
/// of the model.
class ModelWeights {
 public:
  /// Throws BadModel for a name that Python's modules do not accept.
  explicit ModelWeights(torch::nn::Module& root);

  const std::vector<NamedWeight>& all() const { return all_; }
  /// Returns the path and the type of each module. The root is the first, with an empty path.
  const std::vector<std::pair<std::string, std::string>>& modules() const { return modules_; }
  /// Returns the path of a module, or null if the model does not have it.
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
