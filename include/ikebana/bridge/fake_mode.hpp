#pragma once
// Runs operators on fake tensors: shapes, dtypes and lifetimes are those of a computation, and
// nothing is computed. As Python's FakeTensorMode, for C++.
#include <ikebana/bridge/fake_sparse.hpp>
#include <ikebana/bridge/meta_call.hpp>
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/detail/without_values.hpp>
#include <string>
#include <unordered_map>

namespace ikebana::bridge {

/// While it is open in a FakeTensorScope, every tensor that is made is fake, but small ones that
/// depend on no fake one: those are computed, so that numbers and indices which a program makes for
/// itself have their values. A fake result of one element can be read on the host; it is 1. Random
/// operators draw nothing. Tensors that were there before are never written to.
///
/// Throws Error for an operator whose shapes are not known, and where a program reads the value of
/// a fake tensor by `item()` or needs it for a shape. Costs some microseconds per operator. Source:
/// torch._subclasses.FakeTensorMode.
class FakeTensorMode : public OperatorMode, public FakeTensors {
 public:
  static constexpr std::size_t small = 4 << 10;  // bytes
  using FakeTensors::FakeTensors;

  void call(OperatorCall& call) override {
    const FakeOperator& op = found(call);
    if (op.is_view || op.is_decomposed()) return on_fake(call, op);
    OperatorCost cost(call);
    on_fake(call, op);
    ikebana::detail::nanoseconds_without_values += cost.nanoseconds(call);
  }

 private:
  void on_fake(OperatorCall& call, const FakeOperator& op) {
    if (call_on_sparse(call, op, *this)) return;
    const bool fake = takes_fake(call);
    if (op.is_view && op.writes && writes_to_own(call))
      return call.compute();  // `unsqueeze_` changes no element
    if (op.in_place && !changes_layout(call)) {
      if (!fake && !op.draws && writes_to_own(call)) return call.compute();
      const std::int64_t scratch = scratch_of(call, op);
      call.replace(written(call, op));
      return use(scratch);
    }
    if (op.is_decomposed()) return decompose(call);
    if (op.is_view) return call.compute();
    if (op.reads && op.rule == nullptr) {
      if (any_tensor(call, is_unknown))
        refuse("`" + c10::toString(call.name()) +
               "` needs the values of a tensor, which it has not");
      return call.compute();
    }
    if (!fake && !op.draws && (op.writes || is_small(call, op))) return compute_small(call);
    if (op.rule == nullptr && !op.has_meta && !op.without_out)
      refuse("the shapes that `" + c10::toString(call.name()) + "` returns are not known");
    const bool wide = is_wide(call);
    const std::int64_t scratch = scratch_of(call, op);
    if (op.rule != nullptr) by_rule(call, op);
    else if (op.without_out && !op.has_meta) grow_out(call, op);
    else by_meta(call);
    use(scratch + (wide ? wide_results(call) : 0));
  }
  static std::int64_t scratch_of(const OperatorCall& call, const FakeOperator& op) {
    if (!device_of(call).is_cpu()) return 0;
    if (is_wide(call)) return wide_scratch(call, op);
    return op.scratch != nullptr ? op.scratch(call) : 0;
  }
  /// Of a product of 16-bit tensors in FP32: its arguments in FP32, and what the kernel needs for
  /// these. Its results in FP32 are added when there are any (`wide_results`).
  static std::int64_t wide_scratch(const OperatorCall& call, const FakeOperator& op) {
    std::int64_t bytes = 0;
    torch::jit::Stack stack;
    for (const c10::IValue& value : call.arguments())
      stack.push_back(ikebana::detail::with_tensors(value, [&](const at::Tensor& t) {
        if (!c10::isReducedFloatingType(t.scalar_type())) return t;
        bytes += 4 * t.numel();
        return ikebana::detail::tensor_on(
            ikebana::detail::storage_without_memory(
                t.device(), 4 * at::detail::computeStorageNbytes(t.sizes(), t.strides(), 1)),
            t.sizes(), t.strides(), 0, at::kFloat);
      }));
    auto compute = [](const c10::OperatorHandle&, torch::jit::Stack&) {};
    const OperatorCall in_fp32(call.op(), stack, compute);
    return bytes + (op.scratch != nullptr ? op.scratch(in_fp32) : 0);
  }
  /// A result in FP32 is twice as large as the rounded one, which is made of it.
  static std::int64_t wide_results(const OperatorCall& call) {
    std::int64_t bytes = 0;
    ikebana::detail::visit_all(call.results(), [&](const at::Tensor& t) {
      if (c10::isReducedFloatingType(t.scalar_type())) bytes += 2 * t.numel();
    });
    return bytes;
  }
  const FakeOperator& found(const OperatorCall& call) {
    auto [entry, is_new] = known_.try_emplace(&call.name());
    if (is_new) entry->second = examined(call.op());
    return entry->second;
  }
  /// True of `resize_`, and where a result is written to a tensor that has no elements yet.
  static bool changes_layout(const OperatorCall& call) {
    const std::string& name = call.name().name;
    if (name == "aten::resize_" || name == "aten::set_") return true;
    bool grows = false;
    for (std::size_t i = 0; i < call.arguments().size(); ++i)
      if (call.schema().arguments()[i].is_out() && call.arguments()[i].isTensor())
        grows = grows || call.arguments()[i].toTensor().numel() == 0;
    return grows;
  }

  /// False where it writes to a tensor that was there before.
  static bool writes_to_own(const OperatorCall& call) {
    bool own = true;
    for (std::size_t i = 0; i < call.arguments().size(); ++i)
      if (const auto* alias = call.schema().arguments()[i].alias_info(); alias && alias->isWrite())
        ikebana::detail::visit_tensors(call.arguments()[i],
                                       [&](const at::Tensor& t) { own = own && is_counted(t); });
    return own;
  }
  /// Larger tensors with memory count as fake: their values are not computed with.
  bool takes_fake(const OperatorCall& call) const {
    return any_tensor(
        call, [](const at::Tensor& t) { return is_unknown(t) || t.storage().nbytes() > small; });
  }
  static bool is_unknown(const at::Tensor& t) { return !t.has_storage() || is_fake(t); }
  template <class Predicate>
  static bool any_tensor(const OperatorCall& call, const Predicate& is) {
    bool any = false;
    ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) { any = any || is(t); });
    return any;
  }
  /// True where all that the operator makes is small, so that it may be computed.
  bool is_small(const OperatorCall& call, const FakeOperator& op) {
    if (op.rule != nullptr || is_for_host_values(call)) return true;
    if (!op.has_meta) return true;
    const MetaCall meta(call);
    std::size_t bytes = 0;
    ikebana::detail::visit_all(meta.results, [&](const at::Tensor& t) {
      if (t.has_storage()) bytes += t.storage().nbytes();
    });
    return bytes <= small;
  }
  /// Memory that a later operator would write, and does not where it has fake arguments, is 1 too.
  void compute_small(OperatorCall& call) const {
    const StorageSizes given(call.arguments());
    const bool is_empty = call.name().name.starts_with("aten::empty");
    call.compute();
    if (is_empty) call.results()[0].toTensor().fill_(1);
    given.count_new(call.results(), memory_);
  }
  /// Runs the composition on fake tensors, so that each operator of it is seen.
  void decompose(OperatorCall& call) const {
    const StorageSizes given(call.arguments());
    torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
    const auto tls = c10::impl::tls_local_dispatch_key_set();
    {
      const c10::impl::ForceDispatchKeyGuard seen(
          tls.included_ | c10::DispatchKeySet(operator_key),
          tls.excluded_ - c10::DispatchKeySet(operator_key));
      call.op().redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
    given.count_new(stack, memory_);
    call.replace(std::vector<c10::IValue>(stack.begin(), stack.end()));
  }
  /// The arguments that an operator in place returns.
  static std::vector<c10::IValue> written(const OperatorCall& call, const FakeOperator& op) {
    std::vector<c10::IValue> results;
    for (const int i : op.returned)
      results.push_back(call.arguments()[static_cast<std::size_t>(i)]);
    return results;
  }
  void by_rule(OperatorCall& call, const FakeOperator& op) {
    const c10::Device device = device_of(call);
    std::vector<c10::IValue> results;
    for (const Shape& shape : shapes_of(call, op.rule)) {
      if (shape.is_none) results.push_back(at::Tensor());
      else results.push_back(make(shape, device));
    }
    call.replace(std::move(results));
  }
  /// Rules ask LibTorch's own meta kernels, as no program's operators.
  static Shapes shapes_of(const OperatorCall& call, ShapeRule rule) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const at::AutoDispatchBelowADInplaceOrView below;
    return rule(call);
  }
  /// A result that is written to an empty tensor has the shape of the operator without `out`.
  void grow_out(OperatorCall& call, const FakeOperator& op) {
    const std::size_t inputs = op.without_out->schema().arguments().size();
    torch::jit::Stack stack(call.arguments().begin(),
                            call.arguments().begin() + static_cast<std::ptrdiff_t>(inputs));
    auto compute = [](const c10::OperatorHandle&, torch::jit::Stack&) {};
    const OperatorCall without(*op.without_out, stack, compute);
    const Shapes shapes = shapes_of(without, shape_rule(c10::toString(without.name())));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const at::Tensor out = call.arguments()[inputs + i].toTensor();
      Shape shape = shapes[i];
      shape.type = out.scalar_type();
      if (out.numel() == 0) pass_layout(out, make(shape, out.device()));
    }
    call.replace(written(call, op));
  }

  void by_meta(OperatorCall& call) {
    const MetaCall meta(call);
    const c10::Device device = device_of(call);
    std::vector<c10::IValue> results;
    for (const c10::IValue& value : meta.results)
      results.push_back(ikebana::detail::with_tensors(
          value, [&](const at::Tensor& t) { return real_of(call, meta, t, device); }));
    for (const auto& [given, counterpart] : meta.pairs) pass_layout(given, counterpart);
    call.replace(std::move(results));
  }
  at::Tensor real_of(const OperatorCall& call, const MetaCall& meta, const at::Tensor& t,
                     c10::Device device) {
    for (const auto& [given, counterpart] : meta.pairs) {
      if (counterpart.is_same(t)) return given;
      if (ikebana::detail::same_storage(counterpart, t))
        return ikebana::detail::tensor_on(given.storage(), t.sizes(), t.strides(),
                                          t.storage_offset(), t.scalar_type());
    }
    if (t.layout() != at::kStrided)
      refuse("`" + c10::toString(call.name()) + "` returns a tensor that is " +
             c10::str(t.layout()));
    return make(t.sizes(), t.strides(), t.scalar_type(), device);
  }
  /// An operator such as `resize_`, or one with `out`, may give an argument another layout.
  void pass_layout(const at::Tensor& given, const at::Tensor& meta) {
    if (given.sizes() == meta.sizes() && given.strides() == meta.strides()) return;
    if (meta.storage().nbytes() > given.storage().nbytes()) {
      const c10::Storage grown =
          fake_storage(memory_, meta.storage().nbytes(), given.device(), no_values);
      auto* impl = given.storage().unsafeGetStorageImpl();
      impl->set_data_ptr_noswap(
          std::move(grown.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
      impl->set_nbytes(meta.storage().nbytes());
      ikebana::detail::set_error(given.storage(), no_values);
    }
    given.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(),
                                                       meta.storage_offset());
  }
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error("estimate: " + what + ". Give it a batch of real tensors, which measures instead.");
  }

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
