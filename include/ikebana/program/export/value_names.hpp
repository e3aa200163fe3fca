#pragma once
// Gives names to all values of a program.
#include <ikebana/program/export/names.hpp>
#include <ikebana/program/export/program_json.hpp>

namespace ikebana::detail::exported {

/// The names of a program's inputs, which are its weights, its constants and the leaves of the
/// arguments, in this order, and of the results of nodes, which get their names one after the
/// other.
struct ValueNames {
  /// An argument of the program. One that is not a tensor has no value.
  struct Leaf {
    std::string name;
    bool is_tensor;
  };

  explicit ValueNames(const ProgramParts& parts);

  Names all;
  std::vector<std::string> of;  ///< the names, by value
  std::vector<ValueId> weights, constants, inputs;
  std::vector<Leaf> leaves;
};

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/value_names.ipp>
#endif
