#pragma once
// Defines the running statistics of a batch norm of any class.
#include <ikebana/detail/torch.hpp>
#include <optional>

namespace ikebana::detail {

/// The statistics of one batch norm, as LibTorch names them. Refers to the module.
struct RunningStatistics {
  std::optional<double>* momentum =
      nullptr;  ///< without a value, statistics are the average of all batches
  at::Tensor mean = {}, var = {}, batches = {};

  template <class BatchNorm>
  static RunningStatistics of(BatchNorm& norm) {
    return {&norm.options.momentum(), norm.running_mean, norm.running_var,
            norm.num_batches_tracked};
  }
};
/// The base of a batch norm that is not one of LibTorch's classes.
struct HasRunningStatistics {
  virtual ~HasRunningStatistics() = default;
  virtual RunningStatistics running_statistics() = 0;
};

}  // namespace ikebana::detail
