#pragma once
// A tensor that autograd saves, and that lies elsewhere until backward needs it.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/stored_activations.hpp>
#include <unordered_map>

namespace ikebana::detail {

/// What stays on the device when autograd saves it: what the trainer keeps there anyway
/// (parameters, buffers, the batch), what is small, and what is no dense memory of that device.
class StaysOnDevice {
 public:
  /// Before a forward: the present memory of the model and of the batch.
  template <class Batch>
  void begin_forward(c10::Device device, std::int64_t min_bytes, const UnitTable& units,
                     const Batch& batch) {
    device_ = device, min_bytes_ = min_bytes;
    kept_.clear();
    for (const Unit& unit : units.units()) add(unit.parameters);
    for (const at::Tensor& buffer : units.units()[0].module->buffers()) add_one(buffer);
    for_each_tensor(batch, [&](const at::Tensor& t) { add_one(t); });
  }
  /// Parameters of a unit, whose memory has come here.
  void add(const std::vector<at::Tensor>& parameters);
  bool operator()(const at::Tensor& t) const;

 private:
  void add_one(const at::Tensor& t);

  c10::Device device_ = at::kCPU;
  std::int64_t min_bytes_ = 0;
  // Kept weakly, so that none that is made later has the address of one that was freed.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> kept_;
};

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
