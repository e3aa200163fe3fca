#pragma once
// A tensor that autograd saves, and that lies elsewhere until backward needs it.
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/error.hpp>
#include <ikebana/offload/stays_on_device.hpp>
#include <ikebana/offload/stored_activations.hpp>

namespace ikebana::detail {

/// The bytes of a storage with which a tensor is moved: all, so that views of one tensor are one
/// copy; those that it spans where they are less than a quarter. These begin at a multiple of
/// `alignment`, so that what comes back is aligned as it was: kernels that differ in their bits are
/// chosen by that.
struct MovedRange {
  static constexpr std::int64_t alignment = 256;
  std::int64_t first = 0, size = 0;

  explicit MovedRange(const at::Tensor& t) : size(static_cast<std::int64_t>(t.storage().nbytes())) {
    std::int64_t elements = 1;
    for (std::int64_t d = 0; d < t.dim(); ++d) elements += (t.size(d) - 1) * t.stride(d);
    const auto width = static_cast<std::int64_t>(t.itemsize());
    if (elements * width >= size / 4) return;
    const std::int64_t begin = t.storage_offset() * width;
    first = begin / alignment * alignment;
    size = begin - first + elements * width;
  }
};

/// The hooks of one saved tensor. Autograd does not compare versions of a tensor that has hooks, so
/// these do. A template, so that only files that offload compile it.
template <class = void>
class OffloadedTensor : public torch::autograd::SavedVariableHooks {
 public:
  /// `stays` is asked when the tensor is saved, which follows at once.
  OffloadedTensor(std::shared_ptr<StoredActivations<>> store, const StaysOnDevice& stays)
      : store_(std::move(store)), stays_(&stays) {}

  void call_pack_hook(const at::Tensor& t) override {
    version_.emplace(t);
    if ((*stays_)(t)) return void(kept_ = t.tensor_data());
    const MovedRange range(t);
    sizes_ = t.sizes(), strides_ = t.strides();
    offset_ = t.storage_offset() - range.first / static_cast<std::int64_t>(t.itemsize());
    type_ = t.scalar_type(), is_conj_ = t.is_conj(), is_neg_ = t.is_neg();
    stored_ = store_->add(t, range.first, range.size);
  }
  at::Tensor call_unpack_hook() override {
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

 private:
  at::Tensor view(const at::Tensor& bytes) const {
    at::Tensor t = tensor_on(bytes.storage(), sizes_, strides_, offset_, type_);
    if (is_conj_) t = t.conj();
    if (is_neg_) t = at::_neg_view(t);
    version_->share_with(t);
    return t;
  }

  std::shared_ptr<StoredActivations<>> store_;
  const StaysOnDevice* stays_;
  std::shared_ptr<StoredActivation<>> stored_;
  at::Tensor kept_;
  std::optional<Version> version_;
  c10::DimVector sizes_, strides_;
  std::int64_t offset_ = 0;
  at::ScalarType type_ = at::kFloat;
  bool is_conj_ = false, is_neg_ = false;
};

}  // namespace ikebana::detail
