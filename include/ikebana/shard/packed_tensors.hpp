#pragma once
// Tensors of several shapes and dtypes as one message.
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// How tensors of one device lie in one tensor of bytes: each at a multiple of 16.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& like) : like_(like) {
    for (const at::Tensor& t : like) {
      begins_.push_back(bytes_);
      bytes_ += (static_cast<std::int64_t>(t.nbytes()) + 15) / 16 * 16;
    }
  }
  /// The same on ranks whose tensors have the same shapes and dtypes.
  std::string text() const {
    std::string text;
    for (const at::Tensor& t : like_)
      text += c10::str(t.scalar_type(), t.sizes(), t.device().type(), " ");
    return text;
  }
  at::Tensor new_memory() const {
    return at::zeros({bytes_}, like_[0].options().dtype(at::kByte).requires_grad(false));
  }
  /// The tensors within `memory`, which they share.
  std::vector<at::Tensor> places(const at::Tensor& memory) const {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < like_.size(); ++i)
      all.push_back(memory.narrow(0, begins_[i], static_cast<std::int64_t>(like_[i].nbytes()))
                        .view(like_[i].scalar_type())
                        .view(like_[i].sizes()));
    return all;
  }

 private:
  std::vector<at::Tensor> like_;
  std::vector<std::int64_t> begins_;
  std::int64_t bytes_ = 0;
};

}  // namespace ikebana::detail
