#pragma once
// modules::StandardScaler: scikit-learn's StandardScaler as a module, so that its mean and scale
// are saved with the model.
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <ostream>

namespace ikebana::modules {

/// Normalises columns to mean 0 and variance 1: (x - mean) / scale, by numbers that `fit` takes
/// from the training rows. Its numbers are buffers, so a saved model has them, and a model that
/// loads them need not be fitted. Source: sklearn.preprocessing.StandardScaler.
struct StandardScalerImpl : torch::nn::Module {
  /// Makes a scaler of so many columns, which is to be fitted or loaded before it is used. Throws
  /// BadValue for less than one column.
  explicit StandardScalerImpl(std::int64_t columns);

  /// Computes mean and standard deviation (divided by the number of rows) of each column of x
  /// (rows, columns) in double; NaN are left out. The scale of a constant column is 1. Throws
  /// BadBatch for another shape, a column without a value and an infinite value.
  StandardScalerImpl& fit(const at::Tensor& x);

  /// Takes x (..., columns); the result has the same shape, and x's dtype if that is floating, else
  /// the default dtype. Computed in double. NaN stay NaN. Throws BadBatch for another number of
  /// columns, BadModel if it was not fitted.
  at::Tensor transform(const at::Tensor& x);
  /// Does the opposite of `transform`.
  at::Tensor inverse_transform(const at::Tensor& x);
  /// Is `transform`.
  at::Tensor forward(const at::Tensor& x) { return transform(x); }
  /// Writes the module as printing a model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

  at::Tensor mean;            ///< (columns), Double; NaN before it is fitted
  at::Tensor scale;           ///< (columns), Double: standard deviations, 1 for constant columns
  at::Tensor n_samples_seen;  ///< (columns), Long: the values of each column that are not NaN

 private:
  void check(const at::Tensor& x, const char* method);
  static at::Tensor widened(const at::Tensor& x);
  at::Tensor narrowed(const at::Tensor& y, const at::Tensor& x) const;

  bool is_fitted_ = false;  // known to be; a scaler that was loaded is asked once
};

/// The holder of a StandardScalerImpl.
class StandardScaler : public torch::nn::ModuleHolder<StandardScalerImpl> {
 public:
  using torch::nn::ModuleHolder<StandardScalerImpl>::ModuleHolder;
  using Impl = StandardScalerImpl;  ///< the module that it holds

  /// Makes a scaler that is fitted on x (rows, columns): the training rows, and only these. Throws
  /// what `StandardScalerImpl::fit` throws.
  static StandardScaler fit(const at::Tensor& x);
};

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/standard_scaler.ipp>
#endif
