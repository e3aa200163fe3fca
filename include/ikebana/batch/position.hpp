#pragma once
// Where the batch of a step lies in the data.
#include <cstdint>

namespace ikebana {

/// The batch of a step, or the first of several: after `batch` others of epoch `epoch`, from 0.
struct BatchPosition {
  std::int64_t epoch = 0;  ///< from 0
  std::int64_t batch = 0;  ///< batches of the epoch before it
  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

}  // namespace ikebana
