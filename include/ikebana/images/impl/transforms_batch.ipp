#pragma once
#include <ikebana/images/transforms_batch.hpp>
#include <limits>

namespace ikebana::images {

inline std::int64_t draw_key(SampleRng& rng) {
  return rng.randint(std::numeric_limits<std::int64_t>::max());
}

namespace detail {

inline std::vector<std::int64_t> keys_on_host(const at::Tensor& keys) {
  if (!keys.defined() || keys.dim() != 1 || keys.scalar_type() != at::kLong)
    throw BadBatch("BatchTransform or mix: the keys are " +
                   (keys.defined() ? c10::toString(keys.scalar_type()) + c10::str(keys.sizes())
                                   : std::string("an undefined tensor")) +
                   "; they must be (N), Long, one draw_key(rng) per image.");
  if (!keys.is_cpu())
    throw BadBatch("BatchTransform or mix: the keys are on " + keys.device().str() +
                   ", and to read them the host would have to wait. Keep them as a "
                   "std::vector<std::int64_t> in the batch, which no trainer moves.");
  const at::Tensor list = keys.contiguous();
  const auto* key = static_cast<const std::int64_t*>(list.const_data_ptr());
  return {key, key + list.numel()};
}

inline void check_keys(const at::Tensor& images, std::size_t keys) {
  if (!images.defined() || images.dim() != 4 || static_cast<std::size_t>(images.size(0)) != keys)
    throw BadBatch("BatchTransform: the images are " +
                   (images.defined() ? c10::str(images.sizes()) : std::string("undefined")) +
                   ", and there are " + std::to_string(keys) +
                   " keys. Give it images (N, C, H, W) and one key per image.");
}

}  // namespace detail
}  // namespace ikebana::images
