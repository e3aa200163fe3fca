#pragma once
#include <cmath>
#include <ikebana/batch/pad.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// Throws BadValue for a value that the dtype cannot hold, because it would wrap around.
inline void check_padding_value(double value, at::ScalarType type) {
  if (!at::isIntegralType(type, /*includeBool=*/true)) return;
  double lowest = 0, highest = 1;
  if (type == at::kByte) highest = 255;
  if (type == at::kChar) lowest = -128, highest = 127;
  if (type == at::kShort) lowest = -0x1p15, highest = 0x1p15 - 1;
  if (type == at::kInt) lowest = -0x1p31, highest = 0x1p31 - 1;
  if (type == at::kLong)
    lowest = -0x1p53, highest = 0x1p53;  // a double holds these integers exactly
  if (value < lowest || value > highest || value != std::floor(value))
    throw BadValue("pad: padding_value is " + c10::str(value) + ", which " + c10::toString(type) +
                   " cannot hold. Convert the samples to Long or Float first.");
}

/// Returns the length to which samples are padded. The longest, sample `at`, has `longest` rows.
inline std::int64_t padded_length(const PadOptions& options, std::int64_t longest,
                                  std::int64_t at) {
  const std::int64_t multiple = options.pad_to_multiple_of;
  if (multiple < 1 || options.max_length < 0)
    throw BadValue("pad: max_length is " + std::to_string(options.max_length) +
                   ", pad_to_multiple_of " + std::to_string(multiple) +
                   "; they must be at least 0 and 1.");
  if (options.max_length != 0 && longest > options.max_length)
    throw BadBatch("pad: sample " + std::to_string(at) + " has " + std::to_string(longest) +
                   " rows, and max_length is " + std::to_string(options.max_length) +
                   ". Crop samples in the dataset, or raise max_length.");
  const std::int64_t least = options.max_length != 0 ? options.max_length : longest;
  return (least + multiple - 1) / multiple * multiple;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Padded pad(const Ragged& samples, const PadOptions& options) {
  if (!samples.defined()) throw BadBatch("pad: the Ragged is undefined. Give it samples.");
  const at::Tensor& values = samples.values();
  detail::check_padding_value(options.padding_value, values.scalar_type());
  const std::vector<std::int64_t> rows = samples.lengths();
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] > rows[static_cast<std::size_t>(longest)]) longest = static_cast<std::int64_t>(i);
  const std::int64_t most = rows.empty() ? 0 : rows[static_cast<std::size_t>(longest)];
  const std::int64_t length = detail::padded_length(options, most, longest);

  const at::Tensor begin = samples.offsets().narrow(0, 0, samples.size());
  Padded padded{{}, samples.offsets().narrow(0, 1, samples.size()) - begin, {}};
  at::Tensor position = at::arange(length, begin.options()).unsqueeze(0);
  if (options.padding_side == PaddingSide::left)
    position = position - (length - padded.lengths).unsqueeze(1);
  padded.mask = position.ge(0).logical_and(position.lt(padded.lengths.unsqueeze(1)));
  auto sizes = values.sizes().vec();
  sizes[0] = length;
  sizes.insert(sizes.begin(), samples.size());
  if (values.size(0) == 0) {
    padded.values = at::full(sizes, options.padding_value, values.options());
    return padded;
  }
  const at::Tensor rows_of_values = (begin.unsqueeze(1) + position).clamp(0, values.size(0) - 1);
  const at::Tensor all = values.index_select(0, rows_of_values.flatten()).view(sizes);
  std::vector<std::int64_t> broadcast{samples.size(), length};
  broadcast.resize(sizes.size(), 1);
  padded.values = all.masked_fill(padded.mask.logical_not().view(broadcast), options.padding_value);
  return padded;
}

IKEBANA_INLINE Padded pad(const std::vector<at::Tensor>& samples, const PadOptions& options) {
  return pad(Ragged(samples), options);
}

}  // namespace ikebana
