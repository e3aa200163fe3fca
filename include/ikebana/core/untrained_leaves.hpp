#pragma once
// Finds tensors that a loss computes with, that require a gradient and that nothing trains, such as
// a layer that was not registered in its model.
#include <ikebana/core/loss_watch.hpp>
#include <ikebana/detail/tensors.hpp>
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

/// Asked by a backward pass about the leaves of its graph that are no master weights. Costs nothing
/// where there are none, since each step walks its graph in any case (parameters/leaves.hpp).
///
/// In a watched forward it is known which tensors the forward made itself. In any other one a leaf
/// that nothing owns is noted, the next forward is watched, and it is an error when it is met
/// again.
class UntrainedLeaves {
 public:
  UntrainedLeaves();
  ~UntrainedLeaves();

  /// The loss of a microbatch, which must outlive its backward pass. The first forward that trains
  /// in the first step is watched, and a mean that it returns as a sum causes a warning.
  template <class Batch, class F>
  Loss forward(const Batch& microbatch, bool trains, bool is_first_step, const F& loss) {
    const VisitBatch visit = [](const void* batch, Visit f) {
      for_each_tensor(*static_cast<const Batch*>(batch), f);
    };
    return forward_of(&microbatch, visit, trains, is_first_step, loss);
  }
  LeafRecord* record() const { return record_.get(); }

  /// What a backward pass asks of each leaf, and at the end of its walk.
  struct Check {
    UntrainedLeaves* self;  // null: nothing is asked
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
  /// Throws BadModel for a buffer: it is the model's, and no trainer trains it.
  static bool is_owned(torch::nn::Module& model, const at::Tensor& leaf);
  bool is_in_batch(const at::Tensor& leaf);
  /// Notes the leaves that a tensor of the batch was computed from.
  void visit_graph(const at::Tensor& t);
  [[noreturn]] static void refuse(const std::vector<at::Tensor>& leaves, const LeafRecord* record);

  const void* batch_ = nullptr;  // of the present microbatch
  VisitBatch visit_batch_ = nullptr;
  std::unique_ptr<LeafRecord> record_;
  std::unordered_set<const c10::TensorImpl*> asked_;    // in this walk
  std::vector<at::Tensor> untrained_;                   // of this walk
  std::vector<Weak> seen_;                              // that nothing owned, and no forward showed
  std::unordered_set<const c10::TensorImpl*> allowed_;  // by what outlives a step
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
