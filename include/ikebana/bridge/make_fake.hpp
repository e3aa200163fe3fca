#pragma once
// Makes fake tensors whose memory is counted in one place.
#include <ikebana/bridge/fake_tensors.hpp>
#include <ikebana/bridge/shape.hpp>

namespace ikebana::bridge {

/// Makes fake tensors of a FakeMemory.
class FakeTensors {
 public:
  explicit FakeTensors(std::shared_ptr<FakeMemory> memory) : memory_(std::move(memory)) {}

  /// A fake tensor on `device`; contiguous, or with strides. Its memory is `at_least` so large.
  at::Tensor make(at::IntArrayRef sizes, at::ScalarType type, c10::Device device) {
    return make(sizes, c10::contiguous_strides(sizes), type, device);
  }
  at::Tensor make(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                  c10::Device device, std::size_t at_least = 0) {
    const std::size_t bytes = std::max(
        at_least, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
    const bool is_number = device.is_cpu() && c10::multiply_integers(sizes) == 1;
    return ikebana::detail::tensor_on(is_number ? fake_number(memory_, type, device, bytes)
                                                : fake_storage(memory_, bytes, device, no_values),
                                      sizes, strides, 0, type);
  }

 protected:
  static constexpr const char* no_values =
      "a tensor without memory was read: this computation only finds out how much memory it would "
      "take. Give it a batch of real tensors, which measures instead.";

  at::Tensor make(const Shape& shape, c10::Device device) {
    const c10::DimVector contiguous = c10::contiguous_strides(shape.sizes);
    return make(shape.sizes, shape.strides.empty() ? at::IntArrayRef(contiguous) : shape.strides,
                shape.type, device, static_cast<std::size_t>(shape.bytes));
  }
  /// Memory that is there besides the results, and gone when the operator returns.
  void use(std::int64_t bytes) {
    if (bytes > 0) memory_->freed(memory_->allocated(static_cast<std::size_t>(bytes), at::kCPU));
  }

  std::shared_ptr<FakeMemory> memory_;
};

}  // namespace ikebana::bridge
