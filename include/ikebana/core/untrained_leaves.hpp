#pragma once
// Finds tensors that a loss computes with, that require a gradient and that nothing trains, such as
// a layer that was not registered in its model.
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/core/loss_watch.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/model.hpp>
#include <unordered_map>
#include <unordered_set>

namespace ikebana::detail {

/// Notes of one forward, kept until its backward: the tensors that it made itself, and the unit
/// that uses each leaf.
class LeafRecord {
 public:
  /// Units that are run inside of each other, the innermost last.
  std::vector<const Unit*> open_units;

  bool made(const at::Tensor& tensor) const;
  /// Returns the place where an operator first used a leaf, as ", in unit `blocks.0`"; empty
  /// outside of units.
  std::string place(const at::Tensor& leaf) const;
  void note_input(const at::Tensor& t);
  /// Notes a result of an operator, unless it has a history: then it becomes no leaf.
  void note_output(const at::Tensor& t);
  void note_failure() noexcept { is_complete_ = false; }
  /// Throws std::bad_alloc if memory ended while something was to be noted: LibTorch lets no
  /// exception out of the callbacks of its operators.
  void check_complete() const;

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::unordered_set<const c10::TensorImpl*> impls_;  // the addresses of the tensors that were made
  std::vector<Weak> made_;                            // so that no other tensor gets its address
  std::unordered_map<const c10::TensorImpl*, const Unit*> users_;
  bool is_complete_ = true;
};

/// RAII: while it exists, notes the operators of this thread in a record. Costs some hundred
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

  bridge::ThreadCallback callback_;
};

/// RAII: notes in a record which unit's forward runs; does nothing if the record is null.
class WatchedUnit {
 public:
  WatchedUnit(LeafRecord* record, const Unit& unit);
  ~WatchedUnit();
  WatchedUnit(const WatchedUnit&) = delete;
  WatchedUnit& operator=(const WatchedUnit&) = delete;

 private:
  LeafRecord* record_;
};

/// Checks the leaves of a backward's graph that are no master weights. Costs nothing if all are,
/// since each step walks its graph in any case (parameters/leaves.hpp).
///
/// A watched forward shows which tensors it made itself. In any other forward, a leaf that nothing
/// owns is noted and the next forward is watched; if the leaf is met again, that is an error.
class UntrainedLeaves {
 public:
  UntrainedLeaves();
  ~UntrainedLeaves();

  /// Returns the loss of a microbatch, which must outlive its backward pass. The first forward that
  /// trains in the first step is watched, and a mean that it returns as a sum causes a warning.
  template <class Batch, class F>
  Loss forward(const Batch& microbatch, bool trains, bool is_first_step, const F& loss) {
    const VisitBatch visit = [](const void* batch, Visit f) {
      for_each_tensor(*static_cast<const Batch*>(batch), f);
    };
    return forward_of(&microbatch, visit, trains, is_first_step, loss);
  }
  LeafRecord* record() const { return record_.get(); }

  /// Is called by a backward pass for each leaf, and at the end of its walk.
  struct Check {
    UntrainedLeaves* self;  // null: nothing is checked
    torch::nn::Module& model;

    void operator()(const at::Tensor& leaf) const;
    void end_walk() const;
  };

 private:
  using Visit = c10::function_ref<void(const at::Tensor&)>;
  using VisitBatch = void (*)(const void* batch, Visit);
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  Loss forward_of(const void* batch, VisitBatch visit, bool trains, bool is_first_step,
                  c10::function_ref<Loss()> loss);
  void check(torch::nn::Module& model, const at::Tensor& leaf);
  void end_walk();
  /// Returns true if the model, another trainer or `not_trained` owns the leaf. Throws BadModel for
  /// a buffer of the model, which no trainer trains.
  static bool is_owned(torch::nn::Module& model, const at::Tensor& leaf);
  bool is_in_batch(const at::Tensor& leaf);
  /// Notes the leaves that a tensor of the batch was computed from.
  void visit_graph(const at::Tensor& t);
  [[noreturn]] static void refuse(const std::vector<at::Tensor>& leaves, const LeafRecord* record);

  const void* batch_ = nullptr;  // the address of the present microbatch
  VisitBatch visit_batch_ = nullptr;
  std::unique_ptr<LeafRecord> record_;
  std::unordered_set<const c10::TensorImpl*> asked_;    // in this walk
  std::vector<at::Tensor> untrained_;                   // the leaves that this walk found
  std::vector<Weak> seen_;                              // the leaves that nothing owned and no
                                                        // forward showed
  std::unordered_set<const c10::TensorImpl*> allowed_;  // the leaves that something which outlives
                                                        // a step holds
  std::unordered_set<const c10::TensorImpl*> batch_leaves_;
  std::unordered_set<const torch::autograd::Node*> visited_;
  bool was_watched_ = false;   // the first forward
  bool is_due_ = false;        // the next forward is to be watched
  bool makes_leaves_ = false;  // forwards of this loss make leaves of their own
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/untrained_leaves.ipp>
#endif
