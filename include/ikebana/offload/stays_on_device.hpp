#pragma once
// Which saved tensors are not moved.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks.hpp>
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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/stays_on_device.ipp>
#endif
