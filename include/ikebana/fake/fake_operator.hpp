#pragma once
// What computing without values does with an operator, found from its schema and its kernels.
#include <ikebana/fake/operator_device.hpp>
#include <ikebana/fake/scratch_rules.hpp>

namespace ikebana::bridge {

/// What happens to an operator, decided once for each.
struct FakeOperator {
  ShapeRule rule = nullptr;       ///< its results, where LibTorch's C++ side has none
  ScratchRule scratch = nullptr;  ///< what its kernel allocates besides
  bool is_view = false;           ///< returns views, and touches no element
  bool is_composite = false;      ///< calls other operators, which are seen
  bool has_meta = false;          ///< LibTorch has a kernel for tensors without memory
  bool writes = false;
  bool draws = false;
  bool in_place = false;  ///< returns nothing but arguments
  bool reads = false;     ///< gives the host a number, or a shape that depends on values
  /// The same operator without `out`, if it has a rule.
  std::optional<c10::OperatorHandle> without_out = {};
  std::vector<int> returned = {};  ///< for each result the argument that it is, or -1

  /// Runs as the operators that it calls.
  bool is_decomposed() const { return is_composite && rule == nullptr; }
};

/// `aten::where.self` of `aten::where.self_out`, if that has a rule.
std::optional<c10::OperatorHandle> without_out(const c10::OperatorHandle& op);

FakeOperator examined(const c10::OperatorHandle& op);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_operator.ipp>
#endif
