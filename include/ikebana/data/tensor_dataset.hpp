#pragma once
// Defines a dataset whose samples are in memory.
#include <ikebana/batch.hpp>

namespace ikebana {

/// A dataset whose samples are the rows of tensors in a struct, a tuple or an Example, for example
/// `TensorDataset dataset(Digits{images, labels})`. If it is made of tensors, as PyTorch's
/// TensorDataset is, its batches are tuples. A batch costs one `index_select` per tensor, and no
/// other copy.
template <class Batch>
class TensorDataset {
 public:
  /// Throws BadBatch if the tensors differ in their numbers of rows, or have no rows.
  explicit TensorDataset(Batch all) : all_(std::move(all)), size_(rows(all_)) {}
  template <class... More>
  explicit TensorDataset(at::Tensor first, at::Tensor second, More... more)
      : TensorDataset(Batch(std::move(first), std::move(second), std::move(more)...)) {}

  /// Returns the number of samples.
  std::int64_t size() const { return size_; }
  /// Returns copies of the samples at these indices (Long, one dimension), in their order.
  Batch get_batch(const at::Tensor& indices) const { return index_select(all_, indices); }

 private:
  Batch all_;
  std::int64_t size_;
};

template <class Batch>
TensorDataset(Batch) -> TensorDataset<Batch>;
template <class... More>
TensorDataset(at::Tensor, at::Tensor, More...)
    -> TensorDataset<std::tuple<at::Tensor, at::Tensor, More...>>;

}  // namespace ikebana
