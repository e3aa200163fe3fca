#pragma once
// InPlaceChecker: says whether a write in place would break backward, and which operator saved the
// memory that it changes.
#include <atomic>
#include <cstring>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/running_operators.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ikebana {

/// The effect on a saved tensor of a write in place to another tensor.
enum class WriteEffect {
  /// Its values change, autograd counts that, and backward throws.
  Throws,
  /// Autograd counts changes of a tensor and all its views together. So backward throws, although
  /// the two share no element.
  ThrowsNeedlessly,
  /// Its values change and autograd does not see it, as through `variable_data()` or Python's
  /// `.data`. Backward then computes wrong gradients.
  WrongGradients,
};

/// A tensor that autograd saved for a backward that has not run yet.
struct SavedTensor {
  std::string saved_by;  ///< operators, outermost first: `aten::linear > aten::addmm`
  std::string
      label;  ///< names of RECORD_USER_SCOPEs, such as a unit under LabelUnits; may be empty
  std::vector<std::int64_t> sizes;           ///< its shape
  at::ScalarType dtype;                      ///< its dtype
  c10::Device device;                        ///< its device
  WriteEffect effect = WriteEffect::Throws;  ///< the effect of a write to it
  bool is_changed = false;  ///< it was changed already, so backward throws in any case

  /// Returns a text such as `aten::mul saved Float[3, 4] on cpu in block0`.
  std::string text() const;
};

/// Thrown for a write in place to memory that a backward still needs; found at the write, or by
/// backward.
struct InPlaceError : Error {
  using Error::Error;
};

/// At a write to memory that a graph needs: Nothing, Warn, or Throw InPlaceError before backward.
enum class OnWrite { Nothing, Warn, Throw };

/// The options of an InPlaceChecker.
struct InPlaceOptions {
  OnWrite on_write = OnWrite::Nothing;  ///< the reaction to a write to memory that a backward needs
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
  std::string written_by;  ///< the first operator that wrote to it, if writes are checked

  explicit SavedEntry(const at::Tensor& saved) : tensor(saved.tensor_data()), version(tensor) {}
  SavedTensor described(WriteEffect effect) const;
};

/// Sets the effect of a write to `t`. Returns false if it has no effect.
bool effect_of_write(const at::Tensor& t, const SavedEntry& entry, WriteEffect& effect);

/// All entries of one checker. Graphs remove their entries on any thread.
class SavedEntries {
 public:
  void add(SavedEntry& entry);
  void remove(const SavedEntry& entry) noexcept;
  /// Calls `f(entry, effect)` for each entry on which a write to `t` has an effect.
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
  /// Returns a key that is equal for tensors that share memory or a version counter.
  static const void* memory_of(const at::Tensor& t);

  std::mutex mutex_;
  std::unordered_multimap<const void*, SavedEntry*> by_memory_;
};

/// The hook of one saved tensor, which its graph owns.
class SavedHook final : public torch::autograd::SavedVariableHooks {
 public:
  explicit SavedHook(std::shared_ptr<SavedEntries> entries) : entries_(std::move(entries)) {}
  IKEBANA_INLINE ~SavedHook() override;
  IKEBANA_INLINE void call_pack_hook(const at::Tensor& tensor) override;
  IKEBANA_INLINE at::Tensor call_unpack_hook() override;

 private:
  [[noreturn]] void refuse() const;

  std::shared_ptr<SavedEntries> entries_;
  std::optional<SavedEntry> entry_;
};

struct SavedHooks final : bridge::SavedTensorHooks {
  std::shared_ptr<SavedEntries> entries = std::make_shared<SavedEntries>();
  std::atomic<bool> is_closed{false};
  IKEBANA_INLINE std::unique_ptr<torch::autograd::SavedVariableHooks> make() override;
};

const char* text_of(WriteEffect effect);
std::string text_of(const std::vector<SavedTensor>& saved);

/// Checks the memory to which each operator is about to write.
class WriteMode final : public bridge::OperatorMode {
 public:
  WriteMode(std::shared_ptr<SavedEntries> entries, OnWrite on_write)
      : entries_(std::move(entries)), on_write_(on_write) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;
  std::atomic<bool> is_closed{false};

 private:
  void check(const bridge::OperatorCall& call);
  /// Returns true for operators whose schema says that they write, but which only change autograd's
  /// data of the tensor.
  static bool writes_no_element(const bridge::OperatorCall& call);
  void check(const bridge::OperatorCall& call, const at::Tensor& t);

  std::shared_ptr<SavedEntries> entries_;
  OnWrite on_write_;
};

}  // namespace detail

/// RAII: records the tensors that autograd saves on this thread while it exists, with the operator
/// of each, until the graph that needs them ends. `would_break_backward(t)` then says what a write
/// to `t` would break:
///
///     InPlaceChecker checker;
///     at::Tensor loss = model->forward(x).sum();
///     std::cout << checker.explain(weight);   // may `weight` be written to before backward?
///     loss.backward();
///
/// Backward throws InPlaceError instead of autograd's own error, which saved-tensor hooks switch
/// off, and names the operator that saved the tensor. With `on_write`, an operator of this thread
/// that writes to such memory throws or warns before it writes, in backward as well.
///
/// It does not know tensors that were saved before it, on other threads, or within `Checkpoint`,
/// which has hooks of its own, nor writes through a raw pointer. Storages are compared, not
/// addresses: two tensors made by `from_blob` over one array share nothing. Costs about a
/// microsecond per saved tensor and per operator while it exists. A thread may have one; if it is
/// destroyed on another thread, it stops, but some bytes and its cost remain. Throws Error if
/// another engine is installed, such as Python's, if a checker is open, if saved-tensor hooks are
/// switched off, and with `on_write` if another library has the dispatch key of operator modes.
class InPlaceChecker {
 public:
  /// Records what autograd saves from now on, on this thread.
  explicit InPlaceChecker(InPlaceOptions options = {});
  ~InPlaceChecker();
  InPlaceChecker(const InPlaceChecker&) = delete;
  InPlaceChecker& operator=(const InPlaceChecker&) = delete;

  /// Returns the tensors saved for a backward that has not run yet whose memory a write to `t`
  /// would change, or that autograd would take for changed. The list is empty if backward is not
  /// affected. May be called on any thread. Costs a look-up, and a comparison with each saved
  /// tensor of t's storage.
  std::vector<SavedTensor> would_break_backward(const at::Tensor& t) const;
  /// Returns the result of `would_break_backward` as a text of several lines.
  std::string explain(const at::Tensor& t) const;
  /// Returns the saved tensors that were changed already, whose backward throws.
  std::vector<SavedTensor> changed() const;
  /// Returns the number of tensors that are saved for a backward that has not run yet.
  std::size_t saved() const;

 private:
  struct Parts {
    explicit Parts(InPlaceOptions options);
    void close() noexcept;
    detail::SavedHooks hooks;
    detail::RunningOperators running;
    bridge::SavedTensorScope saved;
    std::optional<detail::WriteMode> writes;
    std::optional<bridge::OperatorScope<>> operators;
  };
  static Parts*& open_of_thread() noexcept;
  static void check_possible();

  std::unique_ptr<Parts> parts_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/in_place.ipp>
#endif
