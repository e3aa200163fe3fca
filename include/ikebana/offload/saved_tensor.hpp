#pragma once
// Defines a tensor that autograd saves, and that is stored elsewhere until backward needs it.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/stored_activations.hpp>
#include <unordered_map>

namespace ikebana::detail {

/// Decides which tensors stay on the device when autograd saves them: tensors that the trainer
/// keeps there anyway (parameters, buffers, the batch), small ones, and tensors that are no dense
/// memory of that device. So do those into which `rrelu` writes what it draws: autograd saves them
/// before.
class StaysOnDevice : public bridge::OperatorMode {
 public:
  /// Notes the present memory of the model and of the batch, before a forward.
  template <class Batch>
  void begin_forward(c10::Device device, std::int64_t min_bytes, const UnitTable& units,
                     const Batch& batch) {
    device_ = device, min_bytes_ = min_bytes;
    kept_.clear();
    for (const Unit& unit : units.units()) add(unit.parameters);
    for (const at::Tensor& buffer : units.units()[0].module->buffers()) add_one(buffer);
    for_each_tensor(batch, [&](const at::Tensor& t) { add_one(t); });
  }
  /// Adds the parameters of a unit, which are on the device now.
  void add(const std::vector<at::Tensor>& parameters);
  bool operator()(const at::Tensor& t) const;
  /// Notes what an operator that draws writes to an argument that it does not return.
  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  void add_one(const at::Tensor& t);

  c10::Device device_ = at::kCPU;
  std::int64_t min_bytes_ = 0;
  // Weak references, so that no later storage has the address of a freed one.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> kept_;
};

/// The range of a storage's bytes that is moved for a tensor: the whole storage, so that views of
/// one tensor are one copy, or the bytes that the tensor spans if they are less than a quarter.
/// These begin at a multiple of `alignment`, so that the tensor is aligned as before when it
/// returns: kernels whose results differ are chosen by alignment.
struct MovedRange {
  static constexpr std::int64_t alignment = 256;
  std::int64_t first = 0, size = 0;

  explicit MovedRange(const at::Tensor& t);
};

/// The hooks of one saved tensor. Autograd does not compare versions of a tensor that has hooks, so
/// these do.
class OffloadedTensor : public torch::autograd::SavedVariableHooks {
 public:
  /// `stays` is asked when the tensor is saved, right after this.
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
