#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/fake/meta_call.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE MetaCall::MetaCall(const OperatorCall& call) {
  const auto& arguments = call.schema().arguments();
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(of(arguments[i].name(), call.arguments()[i]));
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::AutoDispatchBelowADInplaceOrView below;
  call.op().callBoxed(stack);
  results.assign(stack.begin(), stack.end());
}

IKEBANA_INLINE c10::IValue MetaCall::of(const std::string& name, const c10::IValue& value) {
  if (name == "device") return c10::Device(at::kMeta);
  if (name == "pin_memory" || value.isGenerator()) return {};
  return ikebana::detail::with_tensors(value, [&](const at::Tensor& t) { return of(t); });
}

IKEBANA_INLINE at::Tensor MetaCall::of(const at::Tensor& t) {
  for (const auto& [given, meta] : pairs)
    if (given.is_same(t)) return meta;
  return pairs.emplace_back(t, ikebana::detail::tensor_over(storage_of(t), t)).second;
}

IKEBANA_INLINE c10::Storage MetaCall::storage_of(const at::Tensor& t) {
  for (const auto& [given, meta] : pairs)
    if (ikebana::detail::same_storage(given, t)) return meta.storage();
  return c10::Storage(c10::Storage::use_byte_size_t(), t.storage().nbytes(),
                      at::DataPtr(nullptr, c10::Device(at::kMeta)), c10::GetAllocator(at::kMeta),
                      true);
}

}  // namespace ikebana::bridge
