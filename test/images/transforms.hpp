#pragma once
// The images that the tests of transforms share.
#include <ikebana/images/transforms.hpp>

#include "test.hpp"

namespace test::images {

using ikebana::SampleRng;

/// Returns random images with colours, and with a grey corner, of these sizes: Byte, or
/// floating-point in [0, 1].
inline at::Tensor random_image(at::IntArrayRef sizes, at::ScalarType dtype = at::kByte,
                               std::int64_t seed = 0) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  at::Tensor x = at::rand(sizes, generator);
  x.narrow(-1, 0, 3).narrow(-2, 0, 3).fill_(0.5);
  return dtype == at::kByte ? x.mul(255).to(at::kByte) : x.to(dtype);
}

/// Returns the image with its channels innermost.
inline at::Tensor channels_last(const at::Tensor& image) {
  constexpr auto last = at::MemoryFormat::ChannelsLast;
  return image.dim() == 4 ? image.contiguous(last) : image.unsqueeze(0).contiguous(last).squeeze(0);
}

/// Returns whether the channels are innermost.
inline bool is_channels_last(const at::Tensor& image) { return image.stride(-3) == 1; }

}  // namespace test::images
