#pragma once
// Tensors of several shapes and dtypes as one message, and their sum over ranks.
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// How tensors lie in one tensor of bytes: each at a multiple of 16.
class SummedValues {
 public:
  explicit SummedValues(const std::vector<at::Tensor>& values) {
    for (const at::Tensor& t : values) {
      text_ += c10::str(t.scalar_type(), t.sizes(), t.device().type(), " ");
      bytes_ += padded(t);
    }
  }
  /// The same on ranks whose values can be added up.
  const std::string& text() const { return text_; }
  at::Tensor packed(const std::vector<at::Tensor>& values) const {
    at::Tensor all = at::zeros({bytes_}, values[0].options().dtype(at::kByte).requires_grad(false));
    std::int64_t begin = 0;
    for (const at::Tensor& t : values) {
      if (t.numel() != 0) one(all, begin, t).copy_(t.detach());
      begin += padded(t);
    }
    return all;
  }
  /// Replaces the values by the sums over `all`, in this order.
  void add_up(const std::vector<at::Tensor>& all, std::vector<at::Tensor>& values) const {
    const at::NoGradGuard no_grad;
    std::int64_t begin = 0;
    for (at::Tensor& value : values) {
      at::Tensor total;
      for (const at::Tensor& bytes : all) {
        const at::Tensor t = one(bytes, begin, value);
        total = total.defined() ? total.add_(t) : t.clone();
      }
      begin += padded(value);
      value = std::move(total);
    }
  }

 private:
  static std::int64_t padded(const at::Tensor& t) {
    return (static_cast<std::int64_t>(t.nbytes()) + 15) / 16 * 16;
  }
  static at::Tensor one(const at::Tensor& bytes, std::int64_t begin, const at::Tensor& like) {
    return bytes.narrow(0, begin, static_cast<std::int64_t>(like.nbytes()))
        .view(like.scalar_type())
        .view(like.sizes());
  }

  std::string text_;
  std::int64_t bytes_ = 0;
};

}  // namespace ikebana::detail
