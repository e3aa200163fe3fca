#pragma once
// Divides the samples of a dataset: at random, in equal shares of all classes, into folds.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana {

/// Returns the indices of the samples of each part (Long, ascending), for Subset: PyTorch's
/// `random_split`. `shares` are fractions that add up to 1; sizes are rounded down, and the rest
/// goes to the parts that lack most, one each. The same seed gives the same parts on every machine.
/// Throws BadValue for shares that are not positive or do not add up to 1, and for a part without a
/// sample.
std::vector<at::Tensor> random_split(std::int64_t samples, const std::vector<double>& shares,
                                     std::uint64_t seed = 0);

/// Does so within each class, so that all parts have the classes in the same shares: scikit-learn's
/// `train_test_split(stratify=labels)`. `labels` are integers, one per sample. Of each class the
/// parts' sizes differ from their shares by at most 1.
std::vector<at::Tensor> stratified_split(const at::Tensor& labels,
                                         const std::vector<double>& shares, std::uint64_t seed = 0);

/// The samples that a fold trains on, and the others.
struct Fold {
  at::Tensor train;       ///< indices (Long, ascending)
  at::Tensor validation;  ///< indices (Long, ascending) of all others
};

/// Returns `folds` folds, in which each sample is left for validation once: scikit-learn's
/// `KFold(shuffle=True)`. Throws BadValue for fewer than 2 folds, or more than samples.
std::vector<Fold> k_folds(std::int64_t samples, std::int64_t folds, std::uint64_t seed = 0);

/// Does so within each class: scikit-learn's `StratifiedKFold(shuffle=True)`.
std::vector<Fold> stratified_k_folds(const at::Tensor& labels, std::int64_t folds,
                                     std::uint64_t seed = 0);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/samplers/impl/splits.ipp>
#endif
