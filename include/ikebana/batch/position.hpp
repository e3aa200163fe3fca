#pragma once
// A position in the data: that of a step's batch, or of a loader.
#include <cstdint>

namespace ikebana {

/// The position of a step's batch, or of the first of several, or of the batch that a loader gives
/// next: `batch` other batches of epoch `epoch` come before it. Both count from 0.
struct BatchPosition {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t batch = 0;  ///< number of the epoch's batches before it
  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

}  // namespace ikebana
