#pragma once
// A tensor that autograd saves, and that lies elsewhere until backward needs it.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>
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

  explicit MovedRange(const at::Tensor& t);
};

/// The hooks of one saved tensor. Autograd does not compare versions of a tensor that has hooks, so
/// these do.
class OffloadedTensor : public torch::autograd::SavedVariableHooks {
 public:
  /// `stays` is asked when the tensor is saved, which follows at once.
  OffloadedTensor(std::shared_ptr<StoredActivations> store, const StaysOnDevice& stays)
      : store_(std::move(store)), stays_(&stays) {}

  IKEBANA_INLINE void call_pack_hook(const at::Tensor& t) override;
  IKEBANA_INLINE at::Tensor call_unpack_hook() override;

 private:
  at::Tensor view(const at::Tensor& bytes) const;

  std::shared_ptr<StoredActivations> store_;
  const StaysOnDevice* stays_;
  std::shared_ptr<StoredActivation> stored_;
  at::Tensor kept_;
  std::optional<Version> version_;
  c10::DimVector sizes_, strides_;
  std::int64_t offset_ = 0;
  at::ScalarType type_ = at::kFloat;
  bool is_conj_ = false, is_neg_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/saved_tensor.ipp>
#endif
