#pragma once
// Defines the refusals of a DataLoader: its dataset and its collate function.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Dataset>
struct NotADataset {
  static_assert(possible<quoted<Dataset> + " has neither get nor get_batch">,
                "ikebana: DataLoader cannot read a sample of this dataset. Give it `get(index)`, "
                "`get(index, SampleRng&)` where samples are drawn at random, or "
                "`get_batch(const at::Tensor& indices)`; and `size()`.");
};
template <class Dataset>
struct DatasetWithoutSize {
  static_assert(possible<quoted<Dataset> + " has no size()">,
                "ikebana: DataLoader needs the number of samples of this dataset, since a position "
                "in it has no meaning otherwise. Give the dataset `size()`.");
};
template <class Sample, class Part>
struct CannotStack {
  static_assert(possible<quoted<Sample> + " cannot be stacked, because of " + quoted<Part>>,
                "ikebana: DataLoader makes batches of tensors, and of numbers and texts in a tuple "
                "or a pair; a sample of this dataset holds something else. A struct keeps the "
                "types of its fields, so its numbers cannot become tensors. Return a std::tuple or "
                "std::pair, make the numbers tensors, or give the loader a collate function.");
};
template <class Collate, class Sample>
struct CannotCollate {
  static_assert(
      possible<quoted<Collate> + " cannot be called with a std::vector of " + quoted<Sample>>,
      "ikebana: DataLoader cannot call this collate function with a std::vector of the "
      "dataset's samples. Write `[](const std::vector<Sample>& samples) "
      "{ return batch; }`; several threads call it at once, so no `mutable`.");
};

}  // namespace ikebana::refuse
