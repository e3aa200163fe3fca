#pragma once
// A dataset that is in memory already.
#include <ikebana/batch.hpp>

namespace ikebana {

/// Samples that are rows of tensors, in anything that is a batch: a struct, a tuple, an Example.
/// `TensorDataset dataset(Digits{images, labels})`; or, as PyTorch's TensorDataset, just tensors,
/// whose batches are tuples. A batch costs one `index_select` a tensor, and no other copy.
template <class Batch>
class TensorDataset {
 public:
  /// Throws BadBatch where the tensors differ in rows, or have none.
  explicit TensorDataset(Batch all) : all_(std::move(all)), size_(rows(all_)) {}
  template <class... More>
  explicit TensorDataset(at::Tensor first, at::Tensor second, More... more)
      : TensorDataset(Batch(std::move(first), std::move(second), std::move(more)...)) {}

  std::int64_t size() const { return size_; }
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
