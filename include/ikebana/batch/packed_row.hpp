#pragma once
// Notes that a thread computes a packed batch, so that attention over its whole row is refused.
#include <ikebana/batch/rows.hpp>
#include <utility>

namespace ikebana::detail {

/// The length of the row of several documents that this thread computes; 0: it computes none.
inline constinit thread_local std::int64_t packed_length = 0;

/// RAII: this thread computes a row of several documents of this length; 0: it computes none.
class PackedScope {
 public:
  explicit PackedScope(std::int64_t length) : before_(std::exchange(packed_length, length)) {}
  ~PackedScope() { packed_length = before_; }
  PackedScope(const PackedScope&) = delete;
  PackedScope& operator=(const PackedScope&) = delete;

 private:
  std::int64_t before_;
};

template <class T>
using IsRagged = std::bool_constant<std::is_same_v<std::remove_cvref_t<T>, Ragged>>;

/// RAII: this thread computes a batch. Does nothing for a type of batches without a Ragged.
template <class Batch>
class PackedRow {
 public:
  explicit PackedRow(const Batch&) {}
};
template <class Batch>
  requires(any_inside<IsRagged, Batch>())
class PackedRow<Batch> {
 public:
  explicit PackedRow(const Batch& batch) : scope_(length_of(batch)) {}

 private:
  /// Returns the length of the first Ragged of several samples, or 0.
  static std::int64_t length_of(const Batch& batch) {
    std::int64_t length = 0;
    auto take = [&](const auto& field, std::int64_t) {
      if constexpr (IsRagged<decltype(field)>::value)
        if (length == 0 && field.size() > 1) length = field.values().size(0);
    };
    for_each_field<0>(batch, take);
    return length;
  }

  PackedScope scope_;
};

}  // namespace ikebana::detail
