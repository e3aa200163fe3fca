#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/packed_sample.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>

namespace ikebana::detail {

/// Returns whether tensors of this dtype are packed: numbers of whole bytes.
inline bool packs_dtype(at::ScalarType type) {
  return name_of_type(type) || type == at::kComplexDouble || type == at::kComplexHalf;
}

IKEBANA_INLINE void SamplePacker::tensor(const at::Tensor& t) {
  if (!t.defined()) return number(-1);
  if (!t.is_cpu() || t.layout() != at::kStrided || !packs_dtype(t.scalar_type()))
    throw BadBatch(
        "DiskCache: a tensor of a sample is " + tensor_text(t) + " of layout " +
        c10::str(t.layout()) +
        ". Return dense tensors of numbers on the CPU; the trainer copies batches to its device.");
  const at::Tensor dense = t.detach().is_non_overlapping_and_dense() ? t.detach() : t.contiguous();
  number(static_cast<std::int64_t>(dense.scalar_type()));
  number(dense.dim());
  for (std::int64_t i = 0; i < dense.dim(); ++i) number(dense.size(i)), number(dense.stride(i));
  raw(dense.const_data_ptr(), dense.nbytes());
}

IKEBANA_INLINE void SampleUnpacker::raw(void* to, std::size_t n) {
  is_whole = is_whole && n <= rest.size();
  if (!is_whole) return std::memset(to, 0, n), void();
  std::memcpy(to, rest.data(), n);
  rest.remove_prefix(n);
}

IKEBANA_INLINE std::int64_t SampleUnpacker::number() {
  std::int64_t value = 0;
  raw(&value, sizeof value);
  return value;
}

IKEBANA_INLINE std::size_t SampleUnpacker::count() {
  const std::int64_t n = number();
  is_whole = is_whole && n >= 0 && std::uint64_t(n) <= rest.size();
  return is_whole ? static_cast<std::size_t>(n) : 0;
}

IKEBANA_INLINE std::string SampleUnpacker::text() {
  std::string value(count(), '\0');
  raw(value.data(), value.size());
  return value;
}

/// Returns whether so many elements fill the memory from the first to the last.
inline bool is_dense(const std::vector<std::int64_t>& sizes,
                     const std::vector<std::int64_t>& strides, std::uint64_t elements) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(sizes[i] - 1);
    if (strides[i] < 0) return false;
    const auto stride = static_cast<std::uint64_t>(strides[i]);
    if (steps > 0 && stride >= elements) return false;
    if (steps > 0 && stride > (elements - 1 - last) / steps) return false;
    last += steps * stride;
  }
  return last + 1 == elements;
}

IKEBANA_INLINE at::Tensor SampleUnpacker::tensor() {
  const std::int64_t type = number();
  if (type == -1 || !is_whole) return {};
  const std::int64_t dim = number();
  std::vector<std::int64_t> sizes, strides;
  is_whole = is_whole && type >= 0 && type < static_cast<std::int64_t>(at::ScalarType::Undefined) &&
             dim >= 0 && dim <= 64;
  std::uint64_t elements = 1;
  for (std::int64_t i = 0; is_whole && i < dim; ++i) {
    sizes.push_back(number()), strides.push_back(number());
    is_whole = is_whole && sizes.back() >= 0 && std::uint64_t(sizes.back()) <= rest.size();
    elements *= is_whole ? std::uint64_t(sizes.back()) : 0;
    is_whole = is_whole && elements <= rest.size();
  }
  if (!is_whole) return {};
  const auto dtype = static_cast<at::ScalarType>(type);
  if (!packs_dtype(dtype)) return is_whole = false, at::Tensor();
  is_whole = elements * c10::elementSize(dtype) <= rest.size();
  if (elements > 0) is_whole = is_whole && is_dense(sizes, strides, elements);
  if (!is_whole) return {};
  at::Tensor t = elements > 0 ? at::empty_strided(sizes, strides, dtype) : at::empty(sizes, dtype);
  if (elements > 0) raw(t.mutable_data_ptr(), t.nbytes());
  return t;
}

}  // namespace ikebana::detail
