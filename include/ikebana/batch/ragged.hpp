#pragma once
// Defines Ragged: samples of different lengths, as a batch or as a field of one.
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace ikebana {

namespace detail {
/// Throws BadBatch for an index that is not a vector of integers, such as a mask, whose bools would
/// be taken for rows.
void check_index(const at::Tensor& index);
}  // namespace detail

/// Samples of different lengths, joined in dimension 0, as in PyTorch's jagged tensors: sample i is
/// rows [offsets[i], offsets[i + 1]) of `values()`. A batch counts samples as its rows, and is cut
/// between them, whatever its `batch_dim`. A small value that shares its tensors when it is copied.
/// Costs n + 1 numbers on the host, so that cutting does not wait for a device.
class Ragged {
 public:
  Ragged() = default;
  /// Joins samples, which may differ in dimension 0 alone. Costs one copy. Throws BadBatch for
  /// other samples.
  explicit Ragged(const std::vector<at::Tensor>& samples);
  /// Shares `values`, and copies `offsets`: n + 1 integers for n samples, the first of which is 0,
  /// the last the size of `values` in dimension 0. Waits for the device of `offsets`. Throws
  /// BadBatch for offsets that do not fit.
  Ragged(at::Tensor values, const at::Tensor& offsets);

  /// Returns false for a Ragged that was made without samples.
  bool defined() const { return !host_.empty(); }
  /// Returns the number of samples.
  std::int64_t size() const { return defined() ? std::ssize(host_) - 1 : 0; }
  /// Returns the rows of all samples.
  const at::Tensor& values() const { return values_; }
  /// Returns n + 1 positions in `values()`, Long, on its device. The first is 0.
  const at::Tensor& offsets() const { return offsets_; }
  /// Returns the number of rows of each sample. Does not wait for a device.
  std::vector<std::int64_t> lengths() const;
  /// Returns the position of each row in its sample, from 0, Long, on the device of `values()`:
  /// position_ids of packed documents.
  at::Tensor positions() const;
  /// Returns a view of the rows of sample i.
  at::Tensor operator[](std::int64_t i) const { return narrow(i, 1).values(); }
  /// Returns views of the rows of each sample.
  std::vector<at::Tensor> unbind() const;

  /// Returns a view of samples [begin, begin + length). Throws BadBatch for samples that do not
  /// exist.
  Ragged narrow(std::int64_t begin, std::int64_t length) const;
  /// Returns copies of the samples that `index` (a vector of integers) names, in its order. Waits
  /// for the device of `index`. Throws BadBatch for a sample that does not exist.
  Ragged index_select(const at::Tensor& index) const;

  /// Code that visits the tensors inside a value calls it.
  template <class Self, class F>
  static void each_part(Self& self, F&& f) {
    f(self.values_, [] { return std::string("values"); });
    f(self.offsets_, [] { return std::string("offsets"); });
  }

 private:
  std::int64_t position(std::int64_t i) const;
  [[noreturn]] static void throw_recorded();

  static std::string text(const at::Tensor& t);
  static void check_sample(const at::Tensor& first, const at::Tensor& t, std::size_t i);
  static void check(const at::Tensor& values, const at::Tensor& offsets);
  [[noreturn]] void throw_bad_offsets(const at::Tensor& offsets) const;
  [[noreturn]] void throw_no_sample(std::int64_t i) const;

  at::Tensor values_, offsets_;
  std::vector<std::int64_t> host_;  // the offsets
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/batch/impl/ragged.ipp>
#endif
