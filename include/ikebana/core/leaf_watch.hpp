#pragma once
// What one forward shows of leaves: which tensors it made itself, and which unit uses which leaf.
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/model.hpp>
#include <new>
#include <unordered_map>
#include <unordered_set>

namespace ikebana::detail {

/// What was heard of one forward, until its backward.
class LeafRecord {
 public:
  /// Units that are run inside of each other, the innermost last.
  std::vector<const Unit*> open_units;

  bool made(const at::Tensor& tensor) const {
    return impls_.count(tensor.unsafeGetTensorImpl()) != 0;
  }
  /// Where an operator first used a leaf: ", in unit `blocks.0`".
  std::string place(const at::Tensor& leaf) const {
    const auto found = users_.find(leaf.unsafeGetTensorImpl());
    if (found == users_.end() || found->second == nullptr) return "";
    return ", in unit `" + found->second->name + "`";
  }
  void note_input(const at::Tensor& t) {
    if (t.defined() && t.requires_grad() && t.is_leaf())
      users_.try_emplace(t.unsafeGetTensorImpl(), open_units.empty() ? nullptr : open_units.back());
  }
  /// An operator returned it. What has a history by then becomes no leaf.
  void note_output(const at::Tensor& t) {
    if (!t.defined() || (t.requires_grad() && !t.is_leaf())) return;
    if (!c10::isFloatingType(t.scalar_type()) && !c10::isComplexType(t.scalar_type())) return;
    if (impls_.insert(t.unsafeGetTensorImpl()).second) made_.emplace_back(t.getIntrusivePtr());
  }
  void note_failure() noexcept { is_complete_ = false; }
  /// Throws std::bad_alloc where memory ended while something was to be noted: LibTorch lets no
  /// exception out of what hears its operators.
  void check_complete() const {
    if (!is_complete_) throw std::bad_alloc();
  }

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
  explicit LeafWatch(LeafRecord& record) { current() = &record; }
  ~LeafWatch() {
    at::removeCallback(handle_);
    current() = nullptr;
  }
  LeafWatch(const LeafWatch&) = delete;
  LeafWatch& operator=(const LeafWatch&) = delete;

 private:
  static LeafRecord*& current() {
    static thread_local LeafRecord* record = nullptr;
    return record;
  }
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
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    noting([&](LeafRecord& record) {
      each_tensor(bridge::recorded_inputs(function),
                  [&](const at::Tensor& t) { record.note_input(t); });
    });
    return nullptr;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    noting([&](LeafRecord& record) {
      each_tensor(function.outputs(), [&](const at::Tensor& t) { record.note_output(t); });
    });
  }

  at::CallbackHandle handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                                              .needsInputs(true)
                                                              .needsOutputs(true)
                                                              .scopes({at::RecordScope::FUNCTION}));
};

/// RAII: the forward of a unit, for a record; nothing where there is none.
class WatchedUnit {
 public:
  WatchedUnit(LeafRecord* record, const Unit& unit) : record_(record) {
    if (record_ != nullptr) record_->open_units.push_back(&unit);
  }
  ~WatchedUnit() {
    if (record_ != nullptr) record_->open_units.pop_back();
  }
  WatchedUnit(const WatchedUnit&) = delete;
  WatchedUnit& operator=(const WatchedUnit&) = delete;

 private:
  LeafRecord* record_;
};

}  // namespace ikebana::detail
