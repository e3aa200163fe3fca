#pragma once
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/fake/fake_mode.hpp>
#include <ikebana/fake/shape_rules.hpp>

namespace ikebana::bridge::detail {

inline bool takes_sparse(const OperatorCall& call) {
  bool any = false;
  ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
    any = any || (t.defined() && t.layout() == at::kSparse);
  });
  return any;
}

inline bool returns_tensors(const OperatorCall& call) {
  for (const auto& result : call.schema().returns())
    if (result.type()->isSubtypeOf(c10::TensorType::get())) return true;
  return false;
}

/// Returns a sparse tensor like `like`, whose indices and values are fake, with so many rows of
/// values.
inline at::Tensor fake_sparse(FakeTensors& tensors, const at::Tensor& like, std::int64_t rows,
                              bool is_coalesced) {
  std::vector<std::int64_t> of_values = like._values().sizes().vec();
  of_values[0] = rows;
  const at::Tensor indices = tensors.make({like.sparse_dim(), rows}, at::kLong, like.device());
  const at::Tensor values = tensors.make(of_values, like.scalar_type(), like.device());
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      like.sparse_dim(), like.dense_dim(), like.sizes(), indices, values,
      like.options().layout(at::kSparse), is_coalesced);
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

/// Calls an operator that makes a sparse tensor, reads its parts or numbers, coalesces or copies
/// it, or adds two of them. Returns false for any other operator. How many rows remain when equal
/// ones are added up depends on values, so the largest possible number is assumed.
inline bool call_on_sparse(OperatorCall& call, const FakeOperator& op, FakeTensors& tensors) {
  const std::string& name = call.name().name;
  if (name == "aten::_sparse_coo_tensor_with_dims_and_tensors") return call.compute(), true;
  if (!detail::takes_sparse(call)) return false;
  if (op.is_composite && !call.op().hasKernelForDispatchKey(c10::DispatchKey::SparseCPU))
    return false;
  if (op.is_view || name == "aten::_indices" || name == "aten::_values" ||
      !detail::returns_tensors(call))
    return call.compute(), true;
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::Tensor self = detail::tensor_at(call, 0);
  if (name == "aten::_coalesce" || name == "aten::clone") {
    const bool is_coalesced = name == "aten::_coalesce" || self.is_coalesced();
    return call.replace({detail::fake_sparse(tensors, self, self._nnz(), is_coalesced)}), true;
  }
  if (name != "aten::add" && name != "aten::add_") return false;
  const at::Tensor other = detail::tensor_at(call, 1);
  if (!other.is_sparse() || !self.is_sparse()) return false;
  const at::Tensor sum = detail::fake_sparse(tensors, self, self._nnz() + other._nnz(),
                                             self.is_coalesced() && other.is_coalesced());
  if (name == "aten::add") return call.replace({sum}), true;
  self.unsafeGetTensorImpl()->shallow_copy_from(sum.getIntrusivePtr());
  return call.replace({self}), true;
}

/// Calls an operator on meta tensors that stand for its arguments, to see what it returns.
/// Arguments that share memory have counterparts that share memory, so that a view among the
/// results is recognised.
struct MetaCall {
  explicit MetaCall(const OperatorCall& call);
  c10::IValue of(const std::string& name, const c10::IValue& value);
  at::Tensor of(const at::Tensor& t);
  c10::Storage storage_of(const at::Tensor& t);
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  std::vector<c10::IValue> results;
};

inline MetaCall::MetaCall(const OperatorCall& call) {
  const auto& arguments = call.schema().arguments();
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(of(arguments[i].name(), call.arguments()[i]));
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::AutoDispatchBelowADInplaceOrView below;
  call.op().callBoxed(stack);
  results.assign(stack.begin(), stack.end());
}

inline c10::IValue MetaCall::of(const std::string& name, const c10::IValue& value) {
  if (name == "device") return c10::Device(at::kMeta);
  if (name == "pin_memory" || value.isGenerator()) return {};
  return ikebana::detail::with_tensors(value, [&](const at::Tensor& t) { return of(t); });
}

inline at::Tensor MetaCall::of(const at::Tensor& t) {
  for (const auto& [given, meta] : pairs)
    if (given.is_same(t)) return meta;
  return pairs.emplace_back(t, ikebana::detail::tensor_over(storage_of(t), t)).second;
}

inline c10::Storage MetaCall::storage_of(const at::Tensor& t) {
  for (const auto& [given, meta] : pairs)
    if (ikebana::detail::same_storage(given, t)) return meta.storage();
  return c10::Storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(),
                      at::DataPtr(nullptr, c10::Device(at::kMeta)), c10::GetAllocator(at::kMeta),
                      true);
}

IKEBANA_INLINE void FakeTensorMode::call(OperatorCall& call) {
  const FakeOperator& op = found(call);
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
      refuse("`" + c10::toString(call.name()) + "` needs the values of a tensor, which it has not");
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

IKEBANA_INLINE std::int64_t FakeTensorMode::scratch_of(const OperatorCall& call,
                                                       const FakeOperator& op) {
  if (!device_of(call).is_cpu()) return 0;
  if (is_wide(call)) return wide_scratch(call, op);
  return op.scratch != nullptr ? op.scratch(call) : 0;
}

IKEBANA_INLINE std::int64_t FakeTensorMode::wide_scratch(const OperatorCall& call,
                                                         const FakeOperator& op) {
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

IKEBANA_INLINE std::int64_t FakeTensorMode::wide_results(const OperatorCall& call) {
  std::int64_t bytes = 0;
  ikebana::detail::visit_all(call.results(), [&](const at::Tensor& t) {
    if (c10::isReducedFloatingType(t.scalar_type())) bytes += 2 * t.numel();
  });
  return bytes;
}

IKEBANA_INLINE const FakeOperator& FakeTensorMode::found(const OperatorCall& call) {
  auto [entry, is_new] = known_.try_emplace(&call.name());
  if (is_new) entry->second = examined(call.op());
  return entry->second;
}

IKEBANA_INLINE bool FakeTensorMode::changes_layout(const OperatorCall& call) {
  const std::string& name = call.name().name;
  if (name == "aten::resize_" || name == "aten::set_") return true;
  bool grows = false;
  for (std::size_t i = 0; i < call.arguments().size(); ++i)
    if (call.schema().arguments()[i].is_out() && call.arguments()[i].isTensor())
      grows = grows || call.arguments()[i].toTensor().numel() == 0;
  return grows;
}

IKEBANA_INLINE bool FakeTensorMode::writes_to_own(const OperatorCall& call) {
  bool own = true;
  for (std::size_t i = 0; i < call.arguments().size(); ++i)
    if (const auto* alias = call.schema().arguments()[i].alias_info(); alias && alias->isWrite())
      ikebana::detail::visit_tensors(call.arguments()[i],
                                     [&](const at::Tensor& t) { own = own && is_counted(t); });
  return own;
}

IKEBANA_INLINE bool FakeTensorMode::takes_fake(const OperatorCall& call) const {
  return any_tensor(
      call, [](const at::Tensor& t) { return is_unknown(t) || t.storage().nbytes() > small; });
}

IKEBANA_INLINE bool FakeTensorMode::is_small(const OperatorCall& call, const FakeOperator& op) {
  if (op.rule != nullptr || is_for_host_values(call)) return true;
  if (!op.has_meta) return true;
  const MetaCall meta(call);
  std::size_t bytes = 0;
  ikebana::detail::visit_all(meta.results, [&](const at::Tensor& t) {
    if (t.has_storage()) bytes += t.storage().nbytes();
  });
  return bytes <= small;
}

IKEBANA_INLINE void FakeTensorMode::compute_small(OperatorCall& call) const {
  const StorageSizes given(call.arguments());
  const bool is_empty = call.name().name.starts_with("aten::empty");
  call.compute();
  if (is_empty) call.results()[0].toTensor().fill_(1);
  given.count_new(call.results(), memory_);
}

IKEBANA_INLINE void FakeTensorMode::decompose(OperatorCall& call) const {
  const StorageSizes given(call.arguments());
  torch::jit::Stack stack(call.arguments().begin(), call.arguments().end());
  const auto tls = c10::impl::tls_local_dispatch_key_set();
  {
    const c10::impl::ForceDispatchKeyGuard seen(tls.included_ | c10::DispatchKeySet(operator_key),
                                                tls.excluded_ - c10::DispatchKeySet(operator_key));
    call.op().redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  }
  given.count_new(stack, memory_);
  call.replace(std::vector<c10::IValue>(stack.begin(), stack.end()));
}

IKEBANA_INLINE std::vector<c10::IValue> FakeTensorMode::written(const OperatorCall& call,
                                                                const FakeOperator& op) {
  std::vector<c10::IValue> results;
  for (const int i : op.returned) results.push_back(call.arguments()[static_cast<std::size_t>(i)]);
  return results;
}

IKEBANA_INLINE void FakeTensorMode::by_rule(OperatorCall& call, const FakeOperator& op) {
  const c10::Device device = device_of(call);
  std::vector<c10::IValue> results;
  for (const Shape& shape : shapes_of(call, op.rule)) {
    if (shape.is_none) results.push_back(at::Tensor());
    else results.push_back(make(shape, device));
  }
  call.replace(std::move(results));
}

IKEBANA_INLINE Shapes FakeTensorMode::shapes_of(const OperatorCall& call, ShapeRule rule) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::AutoDispatchBelowADInplaceOrView below;
  return rule(call);
}

IKEBANA_INLINE void FakeTensorMode::grow_out(OperatorCall& call, const FakeOperator& op) {
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

IKEBANA_INLINE at::Tensor FakeTensorMode::make(const Shape& shape, c10::Device device) {
  const c10::DimVector contiguous = c10::contiguous_strides(shape.sizes);
  return make(shape.sizes, shape.strides.empty() ? at::IntArrayRef(contiguous) : shape.strides,
              shape.type, device, static_cast<std::size_t>(shape.bytes));
}

IKEBANA_INLINE void FakeTensorMode::by_meta(OperatorCall& call) {
  const MetaCall meta(call);
  const c10::Device device = device_of(call);
  std::vector<c10::IValue> results;
  for (const c10::IValue& value : meta.results)
    results.push_back(ikebana::detail::with_tensors(
        value, [&](const at::Tensor& t) { return real_of(call, meta, t, device); }));
  for (const auto& [given, counterpart] : meta.pairs) pass_layout(given, counterpart);
  call.replace(std::move(results));
}

IKEBANA_INLINE at::Tensor FakeTensorMode::real_of(const OperatorCall& call, const MetaCall& meta,
                                                  const at::Tensor& t, c10::Device device) {
  for (const auto& [given, counterpart] : meta.pairs) {
    if (counterpart.is_same(t)) return given;
    if (ikebana::detail::same_storage(counterpart, t))
      return ikebana::detail::tensor_on(given.storage(), t.sizes(), t.strides(), t.storage_offset(),
                                        t.scalar_type());
  }
  if (t.layout() != at::kStrided)
    refuse("`" + c10::toString(call.name()) + "` returns a tensor that is " + c10::str(t.layout()));
  return make(t.sizes(), t.strides(), t.scalar_type(), device);
}

IKEBANA_INLINE void FakeTensorMode::pass_layout(const at::Tensor& given, const at::Tensor& meta) {
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

IKEBANA_INLINE void FakeTensorMode::refuse(const std::string& what) {
  throw Error("estimate: " + what + ". Give it a batch of real tensors, which measures instead.");
}

}  // namespace ikebana::bridge
