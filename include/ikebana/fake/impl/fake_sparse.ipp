#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/fake_sparse.hpp>
#include <ikebana/posix/processor.hpp>

namespace ikebana::bridge::detail {

inline bool takes_sparse(const OperatorCall& call) {
  bool any = false;
  ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
    any = any || (t.defined() && t.layout() == at::kSparse);
  });
  return any;
}

IKEBANA_INLINE bool returns_tensors(const OperatorCall& call) {
  for (const auto& result : call.schema().returns())
    if (result.type()->isSubtypeOf(c10::TensorType::get())) return true;
  return false;
}

IKEBANA_INLINE at::Tensor fake_sparse(FakeTensors& tensors, const at::Tensor& like,
                                      std::int64_t rows, bool is_coalesced) {
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

IKEBANA_INLINE bool call_on_sparse(OperatorCall& call, const FakeOperator& op,
                                   FakeTensors& tensors) {
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

}  // namespace ikebana::bridge
