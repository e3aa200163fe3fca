#pragma once
// The edge between the tokenizer and LibTorch: ids as tensors.
#include <ikebana/detail/torch.hpp>
#include <ikebana/tokenizer/streaming_decoder.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>

namespace ikebana {

inline at::Tensor Tokenizer::encode_tensor(std::string_view text,
                                           const EncodeOptions& options) const {
  const std::vector<std::int32_t> ids = encode(text, options);
  at::Tensor out = at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), static_cast<std::int64_t*>(out.mutable_data_ptr()));
  return out;
}

inline std::string Tokenizer::decode(const at::Tensor& ids, const DecodeOptions& options) const {
  if (!ids.defined() || ids.dim() != 1 || !at::isIntegralType(ids.scalar_type(), false))
    throw BadValue(
        "decode: the ids should be a tensor of integers with one dimension. Decode the "
        "rows of a batch one by one.");
  const at::Tensor all = ids.to(at::kCPU, at::kLong).contiguous();
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    const std::int64_t id = static_cast<const std::int64_t*>(all.const_data_ptr())[i];
    if (id < 0 || id > largest_id())
      throw BadValue("decode: " + std::to_string(id) + " is the id of no token; the largest is " +
                     std::to_string(largest_id()) +
                     ". Decode ids of the tokenizer that encoded them.");
    out.push_back(static_cast<std::int32_t>(id));
  }
  return decode(out, options);
}

}  // namespace ikebana
