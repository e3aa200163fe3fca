#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/group/group_sum.hpp>

namespace ikebana::detail {

IKEBANA_INLINE PackedTensors::PackedTensors(const std::vector<at::Tensor>& like) : like_(like) {
  for (const at::Tensor& t : like) {
    begins_.push_back(bytes_);
    bytes_ += (static_cast<std::int64_t>(t.nbytes()) + 15) / 16 * 16;
  }
}

IKEBANA_INLINE std::string PackedTensors::text() const {
  std::string text;
  for (const at::Tensor& t : like_)
    text += c10::str(t.scalar_type(), t.sizes(), t.device().type(), " ");
  return text;
}

IKEBANA_INLINE at::Tensor PackedTensors::new_memory() const {
  return at::zeros({bytes_}, like_[0].options().dtype(at::kByte).requires_grad(false));
}

IKEBANA_INLINE std::vector<at::Tensor> PackedTensors::places(const at::Tensor& memory) const {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < like_.size(); ++i)
    all.push_back(memory.narrow(0, begins_[i], static_cast<std::int64_t>(like_[i].nbytes()))
                      .view(like_[i].scalar_type())
                      .view(like_[i].sizes()));
  return all;
}

IKEBANA_INLINE void GroupSum::check_layout(const std::string& own, const std::string& other) {
  if (own != other)
    throw BadModel("ranks: they add up different numbers: " + own + " here, and " + other +
                   " on another rank. Let every rank add up the same shapes and dtypes.");
}

}  // namespace ikebana::detail
