#pragma once
// `pad`: joins samples of different lengths to one tensor, with their lengths and a mask.
#include <ikebana/batch/ragged.hpp>

namespace ikebana {

/// The end of each sample at which values are added.
enum class PaddingSide {
  right,  ///< behind the sample
  left    ///< before it, as generation needs
};

/// Options of padding, with the names of PyTorch and Hugging Face.
struct PadOptions {
  double padding_value =
      0;  ///< value of the elements that are added; the dtype of the samples must hold it
  PaddingSide padding_side = PaddingSide::right;  ///< the end at which they are added
  std::int64_t max_length = 0;  ///< the padded length; 0: the longest sample's length
  std::int64_t pad_to_multiple_of =
      1;  ///< the padded length is rounded up to a multiple of it; 1 or more
};

/// n samples of at most L rows as one tensor.
struct Padded {
  at::Tensor values;   ///< (n, L, ...)
  at::Tensor lengths;  ///< (n), Long: the number of rows of each sample
  at::Tensor mask;     ///< (n, L), Bool: true for values, false for padding
};

/// Pads the samples of a Ragged, as PyTorch's `pad_sequence` does with `batch_first=True`. Costs
/// one gather and a mask on its device, and does not wait for it; gradients flow back to the
/// values. Throws BadValue for a `padding_value` that the dtype cannot hold, BadBatch for a sample
/// that is longer than `max_length`.
Padded pad(const Ragged& samples, const PadOptions& options = {});

/// Pads a list of samples, which may differ in dimension 0 alone. Costs two copies of them. Throws
/// BadBatch for other samples, or for an empty list.
Padded pad(const std::vector<at::Tensor>& samples, const PadOptions& options = {});

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/batch/impl/pad.ipp>
#endif
