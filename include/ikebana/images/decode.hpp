#pragma once
// Decodes JPEG and PNG images into tensors. Programs that include it link libjpeg-turbo and libpng.
#include <cstddef>
#include <filesystem>
#include <ikebana/detail/torch.hpp>
#include <ikebana/images/options.hpp>
#include <span>
#include <string_view>

namespace ikebana::images {

/// Decodes an image, a JPEG or a PNG, which its first bytes tell apart. Like torchvision's
/// `decode_image`, with the pixels of Pillow: libjpeg-turbo with the accurate DCT (islow) and
/// smooth upsampling. RGB and Gray have 8 bits: a 16-bit PNG keeps the upper 8.
///
/// Shapes: Byte (C, H, W), in memory (H, W, C), so `permute({1, 2, 0})` is contiguous.
/// ChannelsLastCollate keeps this layout in a batch; at::stack does not. Cost: about 2 ms for a
/// JPEG of 500 x 375; a progressive JPEG takes 2 bytes per value besides. Thread-safe. Throws
/// BadFile for bytes that are damaged, cut off, of another format or of more than `max_pixels`
/// pixels, BadValue for options out of range, OutOfMemory or c10::Error if there is no memory for
/// it.
at::Tensor decode(std::span<const std::byte> bytes, const DecodeOptions& options = {});
/// Decodes an image in a string, such as a field of a file.
at::Tensor decode(std::string_view bytes, const DecodeOptions& options = {});
/// Decodes an image in a tensor, Byte (n), as torchvision does.
at::Tensor decode(const at::Tensor& bytes, const DecodeOptions& options = {});

/// Reads and decodes an image file, like torchvision's `decode_image(path)`. Costs one read of the
/// file and `decode`. Throws what `decode` throws, with the path, and FileFailed if the file cannot
/// be read.
at::Tensor read(const std::filesystem::path& path, const DecodeOptions& options = {});

}  // namespace ikebana::images

namespace ikebana::images::detail {

/// Decodes bytes that error messages call `name`.
at::Tensor decode_named(std::span<const std::byte> bytes, const DecodeOptions& options,
                        std::string_view name);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/decode.ipp>
