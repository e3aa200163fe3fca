#pragma once
// What a loader cannot load from.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Dataset>
struct NotADataset {
  static_assert(possible<Dataset>,
                "ikebana: DataLoader cannot ask this dataset for a sample. Give it `get(index)`, "
                "`get(index, SampleRng&)` where samples are drawn at random, or "
                "`get_batch(const at::Tensor& indices)`; and `size()`.");
};
template <class Dataset>
struct DatasetWithoutSize {
  static_assert(possible<Dataset>,
                "ikebana: DataLoader needs to know how many samples this dataset has, or no "
                "position in it would mean anything. Give it `size()`.");
};
template <class Sample, class Part>
struct CannotStack {
  static_assert(possible<Sample, Part>,
                "ikebana: DataLoader cannot make a batch of these samples, for the second type in "
                "them is neither tensors nor, in a tuple, a number or text. A struct keeps its "
                "fields' types, so its numbers cannot become tensors. Return a std::tuple or "
                "std::pair, make the numbers tensors, or give the loader a collate function.");
};
template <class Collate, class Sample>
struct CannotCollate {
  static_assert(possible<Collate, Sample>,
                "ikebana: DataLoader cannot call this collate function with a std::vector of the "
                "dataset's samples, the second type. Write `[](const std::vector<Sample>& samples) "
                "{ return batch; }`; several threads call it at once, so no `mutable`.");
};

}  // namespace ikebana::refuse
