#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/offload/saved_tensor.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StaysOnDevice::add(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& p : parameters) add_one(p);
}

IKEBANA_INLINE bool StaysOnDevice::operator()(const at::Tensor& t) const {
  return !t.defined() || t.layout() != at::kStrided || !t.has_storage() || t.device() != device_ ||
         t.is_quantized() || t.unsafeGetTensorImpl()->is_python_dispatch() || is_away(t) ||
         static_cast<std::int64_t>(t.storage().nbytes()) < min_bytes_ || t.numel() == 0 ||
         kept_.count(t.storage().unsafeGetStorageImpl()) > 0;
}

IKEBANA_INLINE void StaysOnDevice::add_one(const at::Tensor& t) {
  if (t.defined() && t.has_storage())
    kept_.try_emplace(t.storage().unsafeGetStorageImpl(), t.storage().getWeakStorageImpl());
}

IKEBANA_INLINE void StaysOnDevice::call(bridge::OperatorCall& call) {
  const auto& schema = call.schema();
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* written = schema.arguments()[i].alias_info();
    if (written == nullptr || !written->isWrite()) continue;
    const auto returns = [&](const c10::Argument& result) {
      return result.alias_info() != nullptr && *result.alias_info() == *written;
    };
    if (std::none_of(schema.returns().begin(), schema.returns().end(), returns))
      visit_tensors(call.arguments()[i], [&](const at::Tensor& t) { add_one(t); });
  }
  call.compute();
}

IKEBANA_INLINE MovedRange::MovedRange(const at::Tensor& t)
    : size(static_cast<std::int64_t>(t.storage().nbytes())) {
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < t.dim(); ++d) elements += (t.size(d) - 1) * t.stride(d);
  const auto width = static_cast<std::int64_t>(t.itemsize());
  if (elements * width >= size / 4) return;
  const std::int64_t begin = t.storage_offset() * width;
  first = begin / alignment * alignment;
  size = begin - first + elements * width;
}

IKEBANA_INLINE void OffloadedTensor::call_pack_hook(const at::Tensor& t) {
  version_.emplace(t);
  if ((*stays_)(t)) return void(kept_ = t.tensor_data());
  const MovedRange range(t);
  sizes_ = t.sizes(), strides_ = t.strides();
  offset_ = t.storage_offset() - range.first / static_cast<std::int64_t>(t.itemsize());
  type_ = t.scalar_type(), is_conj_ = t.is_conj(), is_neg_ = t.is_neg();
  stored_ = store_->add(t, range.first, range.size);
}

IKEBANA_INLINE at::Tensor OffloadedTensor::call_unpack_hook() {
  if (version_->changed())
    throw BadModel(
        "Offload: a tensor that was saved for backward has been modified by an in-place "
        "operation since. Change a copy, or change it after backward.");
  if (!stored_) return kept_;
  const at::NoGradGuard no_grad;
  const at::Tensor bytes = store_->get(*stored_);
  if (torch::autograd::get_current_graph_task_id() >= 0 &&
      torch::autograd::get_current_graph_task_keep_graph())
    torch::autograd::Engine::get_default_engine().queue_callback(
        [store = store_, weak = std::weak_ptr(stored_)] {
          if (auto stored = weak.lock()) store->release(*stored);
        });
  return view(bytes);
}

IKEBANA_INLINE at::Tensor OffloadedTensor::view(const at::Tensor& bytes) const {
  at::Tensor t = tensor_on(bytes.storage(), sizes_, strides_, offset_, type_);
  if (is_conj_) t = t.conj();
  if (is_neg_) t = at::_neg_view(t);
  version_->share_with(t);
  return t;
}

}  // namespace ikebana::detail
