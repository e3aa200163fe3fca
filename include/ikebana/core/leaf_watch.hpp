#pragma once
// What one forward shows of leaves: which tensors it made itself, and which unit uses which leaf.
#include <ikebana/model.hpp>
#include <unordered_map>
#include <unordered_set>

namespace ikebana::detail {

/// What was heard of one forward, until its backward.
class LeafRecord {
 public:
  /// Units that are run inside of each other, the innermost last.
  std::vector<const Unit*> open_units;

  bool made(const at::Tensor& tensor) const;
  /// Where an operator first used a leaf: ", in unit `blocks.0`".
  std::string place(const at::Tensor& leaf) const;
  void note_input(const at::Tensor& t);
  /// An operator returned it. What has a history by then becomes no leaf.
  void note_output(const at::Tensor& t);
  void note_failure() noexcept { is_complete_ = false; }
  /// Throws std::bad_alloc where memory ended while something was to be noted: LibTorch lets no
  /// exception out of what hears its operators.
  void check_complete() const;

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::unordered_set<const c10::TensorImpl*> impls_;  // of what was made
  std::vector<Weak> made_;                            // so that no other tensor gets its address
  std::unordered_map<const c10::TensorImpl*, const Unit*> users_;
  bool is_complete_ = true;
};

/// RAII: while it exists, operators of this thread are noted in a record. Costs some hundred
/// nanoseconds per operator. Must be destroyed on the thread that made it, and does not nest.
class LeafWatch {
 public:
  explicit LeafWatch(LeafRecord& record);
  ~LeafWatch();
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

 private:
  static LeafRecord*& current();
  template <class Values, class F>
  static void each_tensor(const Values& values, F&& f) {
    for (const c10::IValue& value : values)
      if (value.isTensor()) f(value.toTensor());
      else if (value.isTensorList())
        for (const at::Tensor& t : value.toTensorVector()) f(t);
  }
  template <class F>
  static void noting(F&& f) noexcept {
    if (current() == nullptr) return;
    try {
      f(*current());
    } catch (...) {
      current()->note_failure();
    }
  }
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext*);

  at::CallbackHandle handle_;
};

/// RAII: the forward of a unit, for a record; nothing where there is none.
class WatchedUnit {
 public:
  WatchedUnit(LeafRecord* record, const Unit& unit);
  ~WatchedUnit();
  WatchedUnit(const WatchedUnit&) = delete;
  WatchedUnit& operator=(const WatchedUnit&) = delete;

 private:
  LeafRecord* record_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/leaf_watch.ipp>
#endif
