#pragma once
// Makes the form in which a program is run: the pieces of its units, and the root that calls them.
#include <ikebana/program/cut_units.hpp>

namespace ikebana::detail::pt2 {

/// One call of a unit: a piece with slots of its own.
struct UnitPiece {
  std::string path;  ///< the path of the module
  Piece piece;
};

/// A graph in the form in which it is run.
struct Plan {
  Piece root;
  std::vector<UnitPiece> units;  ///< the calls of units, by the index that instructions of the root
                                 ///< name
  std::vector<Scope> scopes;
  std::vector<AttributeName> attributes;
  std::vector<Slot> written;           ///< the attributes to which the graph writes
  std::vector<Operand> outputs;        ///< the outputs, whose operands are the root's
  std::vector<WriteBack> write_backs;  ///< the buffers' new values, whose operands are the root's,
                                       ///< too
  ModeFacts mode;
};

/// Makes the plan of a graph with these modules as units, which must be separable.
Plan plan_of(CompiledGraph graph, const std::vector<std::string>& units);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/plan.ipp>
#endif
