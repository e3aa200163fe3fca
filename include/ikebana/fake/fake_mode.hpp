#pragma once
// Runs operators on fake tensors. Shapes, dtypes and lifetimes are as in a computation, but nothing
// is computed. It is the counterpart of Python's FakeTensorMode for C++.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/fake/fake_operator.hpp>
#include <ikebana/fake/fake_tensors.hpp>
#include <string>
#include <unordered_map>

namespace ikebana::bridge {

struct MetaCall;

/// While it is open in a FakeTensorScope, every tensor that is made is fake, except small ones that
/// depend on no fake one: these are computed, so that numbers and indices which a program makes for
/// itself have their values. A fake result of one element can be read on the host; it is 1. Random
/// operators draw nothing. Tensors that were there before are never written to.
///
/// Throws Error for an operator whose shapes are not known, and if a program reads the value of a
/// fake tensor by `item()` or needs it for a shape. Costs some microseconds per operator. Source:
/// torch._subclasses.FakeTensorMode.
class FakeTensorMode : public OperatorMode, public FakeTensors {
 public:
  static constexpr std::size_t small = 4 << 10;  // bytes
  using FakeTensors::FakeTensors;
  using FakeTensors::make;

  IKEBANA_INLINE void call(OperatorCall& call) override;

 private:
  static std::int64_t scratch_of(const OperatorCall& call, const FakeOperator& op);
  /// Returns the scratch memory of a product of 16-bit tensors in FP32: its arguments in FP32, and
  /// what the kernel needs for these. `wide_results` adds its results in FP32 once they exist.
  static std::int64_t wide_scratch(const OperatorCall& call, const FakeOperator& op);
  /// Returns the bytes of results in FP32. Each is twice as large as the rounded one, which is made
  /// from it.
  static std::int64_t wide_results(const OperatorCall& call);
  const FakeOperator& found(const OperatorCall& call);
  /// Returns true for `resize_`, and if a result is written to a tensor that has no elements yet.
  static bool changes_layout(const OperatorCall& call);

  /// Returns false if the call writes to a tensor that existed before the mode.
  static bool writes_to_own(const OperatorCall& call);
  /// Returns true if an argument is fake or larger than `small`: the values of large tensors with
  /// memory are not used either.
  bool takes_fake(const OperatorCall& call) const;
  static bool is_unknown(const at::Tensor& t) { return !t.has_storage() || is_fake(t); }
  template <class Predicate>
  static bool any_tensor(const OperatorCall& call, const Predicate& is) {
    bool any = false;
    ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) { any = any || is(t); });
    return any;
  }
  /// Returns true if all results of the operator are small, so that it may be computed.
  bool is_small(const OperatorCall& call, const FakeOperator& op);
  /// Computes the call. Fills uninitialised memory with 1, because a later operator that would
  /// write it does not if it has fake arguments.
  void compute_small(OperatorCall& call) const;
  /// Runs the composition on fake tensors, so that the mode sees each operator of it.
  void decompose(OperatorCall& call) const;
  /// Returns the arguments that an operator in place returns.
  static std::vector<c10::IValue> written(const OperatorCall& call, const FakeOperator& op);
  void by_rule(OperatorCall& call, const FakeOperator& op);
  /// Calls the rule outside of autocast and autograd, because rules call LibTorch's own meta
  /// kernels.
  static Shapes shapes_of(const OperatorCall& call, ShapeRule rule);
  /// Gives an empty tensor to which a result is written the shape that the operator without `out`
  /// returns.
  void grow_out(OperatorCall& call, const FakeOperator& op);

  at::Tensor make(const Shape& shape, c10::Device device);
  void by_meta(OperatorCall& call);
  at::Tensor real_of(const OperatorCall& call, const MetaCall& meta, const at::Tensor& t,
                     c10::Device device);
  /// Gives an argument the layout of its counterpart, which an operator such as `resize_`, or one
  /// with `out`, may have changed.
  void pass_layout(const at::Tensor& given, const at::Tensor& meta);
  [[noreturn]] static void refuse(const std::string& what);

  std::unordered_map<const c10::OperatorName*, FakeOperator> known_;
};

/// RAII: opens the mode on this thread.
class FakeTensorScope {
 public:
  explicit FakeTensorScope(FakeTensorMode& mode) : scope_(mode) {}

 private:
  ikebana::detail::WithoutValuesScope without_values_;
  OperatorScope<> scope_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_mode.ipp>
#endif
