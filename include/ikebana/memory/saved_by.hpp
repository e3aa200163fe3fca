#pragma once
// What autograd has saved and a graph still needs: which memory, by which operator, at which
// version.
#include <cstring>
#include <ikebana/detail/tensor_version.hpp>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana {

/// What happens to a saved tensor if another one is written to in place.
enum class WriteEffect {
  /// Its values change, autograd counts that, and backward throws.
  Throws,
  /// Autograd counts changes of a tensor and all its views together. So backward throws, although
  /// the two share no element.
  ThrowsNeedlessly,
  /// Its values change and autograd does not see it, as through `variable_data()` or Python's
  /// `.data`: backward computes wrong gradients.
  WrongGradients,
};

/// A tensor that autograd saved for a backward that has not come yet.
struct SavedTensor {
  std::string saved_by;  ///< operators, outermost first: `aten::linear > aten::addmm`
  std::string label;     ///< the RECORD_USER_SCOPEs, such as a unit under LabelUnits; may be empty
  std::vector<std::int64_t> sizes;           ///< its shape
  at::ScalarType dtype;                      ///< its dtype
  c10::Device device;                        ///< its device
  WriteEffect effect = WriteEffect::Throws;  ///< what a write to it does
  bool is_changed = false;                   ///< backward throws in any case

  /// `aten::mul saved Float[3, 4] on cpu in block0`
  std::string text() const;
};

namespace detail {

/// The bytes of a storage from the first element of a tensor to the end of the last.
struct ByteRange {
  std::int64_t begin = 0, end = 0;
  explicit ByteRange(const at::Tensor& t);
  bool overlaps(const ByteRange& other) const;
};

/// One saved tensor. `tensor` shares its memory and its version counter, and has no graph.
struct SavedEntry {
  at::Tensor tensor;
  Version version;
  std::string saved_by, label;
  std::string written_by;  ///< the first operator that did, where writes are looked at

  explicit SavedEntry(const at::Tensor& saved) : tensor(saved.tensor_data()), version(tensor) {}
  SavedTensor described(WriteEffect effect) const;
};

/// The effect of a write to `t`; false where there is none.
bool effect_of_write(const at::Tensor& t, const SavedEntry& entry, WriteEffect& effect);

/// All entries of one checker. Graphs remove theirs on any thread.
class SavedEntries {
 public:
  void add(SavedEntry& entry);
  void remove(const SavedEntry& entry) noexcept;
  /// Calls `f(entry, effect)` for each that a write to `t` has an effect on.
  template <class F>
  void each_affected(const at::Tensor& t, F&& f) {
    std::lock_guard lock(mutex_);
    auto [at, end] = by_memory_.equal_range(memory_of(t));
    for (WriteEffect effect{}; at != end; ++at)
      if (effect_of_write(t, *at->second, effect)) f(*at->second, effect);
  }
  std::string written_by(const SavedEntry& entry);
  template <class F>
  void each(F&& f) {
    std::lock_guard lock(mutex_);
    for (auto& [_, entry] : by_memory_) f(*entry);
  }

 private:
  /// Tensors that share memory, or a version counter, have it in common.
  static const void* memory_of(const at::Tensor& t);

  std::mutex mutex_;
  std::unordered_multimap<const void*, SavedEntry*> by_memory_;
};

}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/saved_by.ipp>
#endif
