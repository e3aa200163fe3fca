// Defines sparse tensors of the simulated accelerator, whose indices and values are tensors of it.
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/SparseTensorUtils.h>
#include <c10/core/DeviceGuard.h>

#include "simulated_operators.hpp"

namespace simulated {

namespace {

void set(const at::Tensor& to, const at::Tensor& like, const at::Tensor& indices,
         const at::Tensor& values) {
  auto& impl = *at::sparse::get_sparse_impl(to);
  const auto& model = *at::sparse::get_sparse_impl(like);
  impl.raw_resize_(model.sparse_dim(), model.dense_dim(), like.sizes());
  impl.set_indices_and_values_unsafe(indices, values);
  impl.set_coalesced(model.coalesced());
}

bool is_coalesced(const at::Tensor& t) { return at::sparse::get_sparse_impl(t)->coalesced(); }

at::Tensor empty_sparse(c10::DispatchKey key, const at::Tensor& like) {
  return at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
}

}  // namespace

std::pair<at::Tensor, at::Tensor> parts(const at::Tensor& sparse) {
  const auto& impl = *at::sparse::get_sparse_impl(sparse);
  return {impl.indices(), impl.values()};
}

at::Tensor Aliases::of_sparse(const at::Tensor& tensor) {
  const auto [indices, values] = parts(tensor);
  auto host = empty_sparse(c10::DispatchKey::SparseCPU, tensor);
  set(host, tensor, of(indices), of(values));
  return host;
}

at::Tensor Aliases::sparse_back(const at::Tensor& result, c10::Device on) {
  const auto [indices, values] = parts(result);
  const c10::DeviceGuard guard(on);
  auto tensor = empty_sparse(c10::DispatchKey::SparsePrivateUse1, result);
  set(tensor, result, back(indices, on), back(values, on));
  return tensor;
}

void Aliases::keep_sparse_changes(const at::Tensor& tensor, const at::Tensor& host) {
  const auto before = parts(tensor), after = parts(host);
  const auto indices = back(after.first, tensor.device());
  const auto values = back(after.second, tensor.device());
  if (indices.is_same(before.first) && values.is_same(before.second) &&
      tensor.sizes() == host.sizes() && is_coalesced(tensor) == is_coalesced(host))
    return;
  set(tensor, host, indices, values);
}

}  // namespace simulated
