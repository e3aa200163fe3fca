#pragma once
#include <ikebana/batch/ragged.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/error.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void check_index(const at::Tensor& index) {
  const bool fits = index.defined() && index.dim() <= 1 &&
                    (index.scalar_type() == at::kLong || index.scalar_type() == at::kInt);
  if (!fits)
    throw BadBatch("index_select: the index is " +
                   (index.defined() ? c10::toString(index.scalar_type()) + c10::str(index.sizes())
                                    : std::string("undefined")) +
                   "; it must be a vector of Long or Int. For a mask write "
                   "mask.nonzero().squeeze(1).");
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Ragged::Ragged(const std::vector<at::Tensor>& samples) {
  host_.push_back(0);
  for (const at::Tensor& t : samples) {
    check_sample(samples[0], t, host_.size() - 1);
    host_.push_back(host_.back() + t.size(0));
  }
  if (samples.empty()) throw BadBatch("Ragged: it is given no samples. Give at least one.");
  values_ = at::cat(samples);
  offsets_ = at::tensor(host_, at::kLong).to(values_.device());
}

IKEBANA_INLINE Ragged::Ragged(at::Tensor values, const at::Tensor& offsets)
    : values_(std::move(values)) {
  check(values_, offsets);
  if (detail::recording()) throw_recorded();
  const at::Tensor host = offsets.to(at::kCPU, at::kLong).contiguous();
  const auto* first = static_cast<const std::int64_t*>(host.const_data_ptr());
  host_.assign(first, first + host.numel());
  for (std::size_t i = 0; i < host_.size(); ++i)
    if (host_[i] < (i == 0 ? 0 : host_[i - 1])) throw_bad_offsets(offsets);
  if (host_.front() != 0 || host_.back() != values_.size(0)) throw_bad_offsets(offsets);
  offsets_ = offsets.to(values_.device(), at::kLong, /*non_blocking=*/false, /*copy=*/true);
}

IKEBANA_INLINE std::vector<std::int64_t> Ragged::lengths() const {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < size(); ++i) all.push_back(position(i + 1) - position(i));
  return all;
}

IKEBANA_INLINE at::Tensor Ragged::positions() const {
  at::Tensor all = at::empty({defined() ? host_.back() : 0}, at::kLong);
  auto* to = all.mutable_data_ptr<std::int64_t>();
  for (const std::int64_t length : lengths())
    for (std::int64_t i = 0; i < length; ++i) *to++ = i;
  return defined() ? all.to(values_.device(), /*non_blocking=*/true) : all;
}

IKEBANA_INLINE std::vector<at::Tensor> Ragged::unbind() const {
  std::vector<at::Tensor> all;
  for (std::int64_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
  return all;
}

IKEBANA_INLINE Ragged Ragged::narrow(std::int64_t begin, std::int64_t length) const {
  if (begin < 0 || length < 0 || begin > size() - length) throw_no_sample(begin + length - 1);
  Ragged part;
  const std::int64_t first = position(begin), last = position(begin + length);
  for (std::int64_t i = begin; i <= begin + length; ++i) part.host_.push_back(position(i) - first);
  part.values_ = values_.narrow(0, first, last - first);
  part.offsets_ = offsets_.narrow(0, begin, length + 1);
  if (first != 0) part.offsets_ = part.offsets_ - first;
  return part;
}

IKEBANA_INLINE Ragged Ragged::index_select(const at::Tensor& index) const {
  detail::check_index(index);
  const at::Tensor host = index.to(at::kCPU, at::kLong).contiguous();
  const auto* samples = static_cast<const std::int64_t*>(host.const_data_ptr());
  std::vector<std::int64_t> rows, ends{0};
  for (std::int64_t n = 0; n < host.numel(); ++n) {
    const std::int64_t i = samples[n];
    if (i < 0 || i >= size()) throw_no_sample(i);
    for (std::int64_t row = position(i); row < position(i + 1); ++row) rows.push_back(row);
    ends.push_back(std::ssize(rows));
  }
  at::Tensor chosen = values_.index_select(0, at::tensor(rows, at::kLong).to(values_.device()));
  return Ragged(std::move(chosen), at::tensor(ends, at::kLong));
}

IKEBANA_INLINE std::int64_t Ragged::position(std::int64_t i) const {
  if (detail::recording()) throw_recorded();
  return host_[static_cast<std::size_t>(i)];
}

IKEBANA_INLINE void Ragged::throw_recorded() {
  throw BadBatch(
      "Ragged: the step is recorded, and the lengths of samples are read on the host: each "
      "replay would use those of the recorded batch. Use values() and offsets(), which are "
      "tensors, and do not cut the batch.");
}

IKEBANA_INLINE std::string Ragged::text(const at::Tensor& t) {
  if (!t.defined()) return "undefined";
  return c10::toString(t.scalar_type()) + c10::str(t.sizes()) + " on " + t.device().str();
}

IKEBANA_INLINE void Ragged::check_sample(const at::Tensor& first, const at::Tensor& t,
                                         std::size_t i) {
  const bool fits = t.defined() && t.dim() > 0 && t.dim() == first.dim() &&
                    t.sizes().slice(1) == first.sizes().slice(1) &&
                    t.scalar_type() == first.scalar_type() && t.device() == first.device();
  if (!fits)
    throw BadBatch("Ragged: sample " + std::to_string(i) + " is " + text(t) + ", and sample 0 " +
                   text(first) +
                   ". Samples may differ in the size of dimension 0 alone: crop, pad or "
                   "convert them to agree in all else.");
}

IKEBANA_INLINE void Ragged::check(const at::Tensor& values, const at::Tensor& offsets) {
  const bool fits = values.defined() && values.dim() > 0 && offsets.defined() &&
                    offsets.dim() == 1 && offsets.numel() > 0 &&
                    (offsets.scalar_type() == at::kLong || offsets.scalar_type() == at::kInt);
  if (!fits)
    throw BadBatch("Ragged: values are " + text(values) + ", offsets " + text(offsets) +
                   ". Write Ragged{values, offsets} with offsets of Long, one more than samples; "
                   "or Ragged{std::vector<at::Tensor>{first, second, ...}} with the samples.");
}

IKEBANA_INLINE void Ragged::throw_bad_offsets(const at::Tensor& offsets) const {
  throw BadBatch("Ragged: the offsets " + text(offsets) + " run from " +
                 std::to_string(host_.front()) + " to " + std::to_string(host_.back()) +
                 ", for values of " + text(values_) +
                 ". They must begin with 0, never fall, and end with the size of dimension 0. "
                 "Two samples are Ragged{std::vector<at::Tensor>{first, second}}.");
}

IKEBANA_INLINE void Ragged::throw_no_sample(std::int64_t i) const {
  throw BadBatch("Ragged: there is no sample " + std::to_string(i) + "; it has " +
                 std::to_string(size()) + ". Count from 0.");
}

}  // namespace ikebana
