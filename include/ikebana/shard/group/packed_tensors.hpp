#pragma once
// Tensors of several shapes and dtypes as one message.
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// How tensors of one device lie in one tensor of bytes: each at a multiple of 16.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& like);
  /// The same on ranks whose tensors have the same shapes and dtypes.
  std::string text() const;
  at::Tensor new_memory() const;
  /// The tensors within `memory`, which they share.
  std::vector<at::Tensor> places(const at::Tensor& memory) const;

 private:
  std::vector<at::Tensor> like_;
  std::vector<std::int64_t> begins_;
  std::int64_t bytes_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/packed_tensors.ipp>
#endif
