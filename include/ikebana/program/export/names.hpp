#pragma once
// Names of a program's values, which Python takes as they are.
#include <ikebana/program/export/program_json.hpp>
#include <set>
#include <string>

namespace ikebana::detail::exported {

/// Gives each value a name of its own, as torch.fx does: `linear`, `linear_1`.
class Names {
 public:
  /// Returns a name that begins with `base`. Characters other than letters and digits become `_`. A
  /// name that Python reserves gets a number, because torch.fx would rename it.
  std::string add(const std::string& base);
  /// Returns the name of an input, which may be one that Python reserves.
  std::string add_input(const std::string& base);

 private:
  std::string unused(const std::string& base, int first);

  std::set<std::string> used_;
};

/// Names of a program's inputs, which are its weights, its constants and the leaves of the
/// arguments, in this order; and of the results of nodes, which get theirs one after the other.
struct ValueNames {
  /// An argument of the program; one that is no tensor has no value.
  struct Leaf {
    std::string name;
    bool is_tensor;
  };

  explicit ValueNames(const ProgramParts& parts);

  Names all;
  std::vector<std::string> of;  ///< by value
  std::vector<ValueId> weights, constants, inputs;
  std::vector<Leaf> leaves;
};

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/names.ipp>
#endif
