#pragma once
// Makes fake tensors whose memory is counted in one place.
#include <ikebana/fake/fake_tensors.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge {

/// Makes fake tensors of a FakeMemory.
class FakeTensors {
 public:
  explicit FakeTensors(std::shared_ptr<FakeMemory> memory) : memory_(std::move(memory)) {}

  /// A fake tensor on `device`; contiguous, or with strides. Its memory is `at_least` so large.
  at::Tensor make(at::IntArrayRef sizes, at::ScalarType type, c10::Device device);
  at::Tensor make(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                  c10::Device device, std::size_t at_least = 0);

 protected:
  static constexpr const char* no_values =
      "a tensor without memory was read: this computation only finds out how much memory it would "
      "take. Give it a batch of real tensors, which measures instead.";

  at::Tensor make(const Shape& shape, c10::Device device);
  /// Memory that is there besides the results, and gone when the operator returns.
  void use(std::int64_t bytes);

  std::shared_ptr<FakeMemory> memory_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/make_fake.ipp>
#endif
