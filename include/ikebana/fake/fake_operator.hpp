#pragma once
// Decides from an operator's schema and kernels how it is computed without values.
#include <ikebana/fake/operator_device.hpp>
#include <ikebana/fake/scratch_rules.hpp>

namespace ikebana::bridge {

/// The properties of an operator that decide how it is computed without values; found once for each
/// operator.
struct FakeOperator {
  ShapeRule rule =
      nullptr;  ///< the shapes of its results, if LibTorch's C++ side has no meta kernel
  ScratchRule scratch = nullptr;  ///< bytes that its kernel allocates besides its results
  bool is_view = false;           ///< returns views, and touches no element
  bool is_composite = false;      ///< calls other operators, which the mode sees
  bool has_meta = false;          ///< LibTorch has a kernel for tensors without memory
  bool writes = false;
  bool draws = false;
  bool in_place = false;  ///< returns nothing but arguments
  bool reads = false;     ///< returns a number to the host, or a shape that depends on values
  /// The operator without `out`, if that has a rule.
  std::optional<c10::OperatorHandle> without_out = {};
  std::vector<int> returned = {};  ///< for each result, the index of the argument that it is, or -1

  /// Returns true if the operators that it calls run in its place.
  bool is_decomposed() const { return is_composite && rule == nullptr; }
};

/// Returns the operator without `out`, such as `aten::where.self` for `aten::where.self_out`, if
/// that has a rule.
std::optional<c10::OperatorHandle> without_out(const c10::OperatorHandle& op);

FakeOperator examined(const c10::OperatorHandle& op);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_operator.ipp>
#endif
