#pragma once
// The replays of a unit's calls.
#include <ikebana/capture/unit_tape.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::detail {

/// A call that was replayed, until its graph is freed.
struct UnitTape::ReplayedCall : UnitBackwardCall {
  /// Memory that the backward reads, and that is not the tape's.
  struct Bound {
    std::uint32_t memory;
    void* data;
    c10::Storage storage;
  };

  std::shared_ptr<UnitTape> tape;
  std::unique_ptr<BufferPool::Buffer> saved;
  OperatorTape::RandomStates random_states;
  std::vector<Bound> bounds = {};
  std::vector<Version> versions = {};  // the versions of all that the backward reads

  explicit ReplayedCall(std::shared_ptr<UnitTape> of)
      : tape(std::move(of)),
        saved(tape->take(tape->tape_->saved_bytes())),
        random_states(tape->tape_->random_state_count()) {}
  Tensors backward(Tensors seeds, bool is_last) override {
    return tape->replay_backward(*this, seeds, is_last);
  }
  bool is_changed() const {
    return std::any_of(versions.begin(), versions.end(),
                       [](const Version& version) { return version.changed(); });
  }
};

/// Each phase has an arena of its own, since nothing is needed that it leaves there.
IKEBANA_INLINE void UnitTape::replay(Phase phase, ReplayedCall& call, bool is_last) {
  const bool keeps = phase == Phase::Backward && !is_last;
  const auto arena = take(keeps ? tape_->keeping_bytes() : tape_->arena_bytes());
  tape_->use_saved(call.saved->bytes.mutable_data_ptr());
  if (keeps) tape_->use_keeping(arena->bytes.mutable_data_ptr());
  else tape_->use(arena->bytes.mutable_data_ptr());
  struct OwnRandomStates {
    OperatorTape& tape;
    OperatorTape::RandomStates& states;
    OwnRandomStates(OperatorTape& t, OperatorTape::RandomStates& own) : tape(t), states(own) {
      tape.swap_random_states(states);
    }
    ~OwnRandomStates() { tape.swap_random_states(states); }
  } random(*tape_, call.random_states);
  tape_->replay(phase);
}

IKEBANA_INLINE std::vector<c10::Storage> UnitTape::allocate(
    const std::vector<std::uint32_t>& memory) {
  std::vector<c10::Storage> all;
  all.reserve(memory.size());
  for (const std::uint32_t i : memory) all.push_back(tape_->allocate(i));
  return all;
}

IKEBANA_INLINE Tensors UnitTape::replay(Tensors own_arguments) {
  UnitEdges outside;
  const Tensors arguments = with_casts(std::move(own_arguments));
  auto call = std::make_shared<ReplayedCall>(shared_from_this());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    tape_->bind(recorded_.arguments[i], arguments[i]);
  for (const at::Tensor& t : written_) t.unsafeGetTensorImpl()->bump_version();
  const std::vector<c10::Storage> memory = allocate(result_memory_);
  replay(Phase::Forward, *call, /*is_last=*/false);
  Tensors results(recorded_.results.size());
  std::vector<const at::Tensor*> first(memory.size());  // the first one in each memory
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto [from, index] = passed_results_[i];
    if (from == PassedTensor::From::Before) results[i] = results[index];
    if (from != PassedTensor::From::Fresh) continue;
    results[i] = tape_->tensor(recorded_.results[i], memory[index]);
    if (first[index] == nullptr) first[index] = &results[i];
    else
      torch::autograd::impl::set_version_counter(
          results[i], first[index]->unsafeGetTensorImpl()->version_counter());
  }
  if (!recorded_.targets.empty()) connect_replayed(call, arguments, results, std::move(outside));
  return results;
}

IKEBANA_INLINE void UnitTape::connect_replayed(const std::shared_ptr<ReplayedCall>& call,
                                               const Tensors& arguments, const Tensors& results,
                                               UnitEdges outside) {
  outside.all.reserve(recorded_.targets.size());
  for (std::size_t i = 0; i < recorded_.targets.size(); ++i) {
    const std::size_t at = recorded_.targets[i];
    const at::Tensor& target =
        at < arguments.size() ? arguments[at] : tensors_->parameters[at - arguments.size()];
    outside.add(torch::autograd::impl::gradient_edge(target), target, recorded_.before_cast[i]);
  }
  auto keep = [&](const RecordedTensor& recorded, const at::Tensor& t) {
    call->bounds.push_back({recorded.memory, OperatorTape::beginning_of(recorded, t), t.storage()});
    call->versions.emplace_back(t);
  };
  for (const std::size_t i : read_arguments_) keep(recorded_.arguments[i], arguments[i]);
  for (const std::size_t i : read_results_) keep(recorded_.results[i], results[i]);
  for (const std::size_t i : read_tensors_) call->versions.emplace_back((*tensors_)[i]);
  Tensors with_gradients;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (recorded_.requires_grad[i] && passed_results_[i].from == PassedTensor::From::Fresh)
      with_gradients.push_back(results[i]);
  connect(unit_, call, std::move(outside), with_gradients);
}

IKEBANA_INLINE void UnitTape::refuse_changed() const {
  throw BadModel("Capture<EachUnit>: a tensor that the backward of unit `" + unit_ +
                 "` reads was changed in place after its forward: an argument, a result, a "
                 "parameter or a buffer. Change a clone.");
}

IKEBANA_INLINE Tensors UnitTape::replay_backward(ReplayedCall& call, const Tensors& seeds,
                                                 bool is_last) {
  BatchForm form;
  form.take_values(0, seeds);
  if (!(form == recorded_.seed_form)) {
    run_as_usual(other_seeds);
    throw OtherSeeds("Capture<EachUnit>: the gradients of the results of unit `" + unit_ +
                     "` have another form than in the recorded steps. Make the step again: from "
                     "now on the unit runs as usual.");
  }
  if (call.is_changed()) refuse_changed();
  for (const ReplayedCall::Bound& one : call.bounds) tape_->bind(one.memory, one.data);
  for (std::size_t i = 0; i < seeds.size(); ++i) tape_->bind(recorded_.seeds[i], seeds[i]);
  const std::vector<c10::Storage> memory = allocate(gradient_memory_);
  replay(Phase::Backward, call, is_last);
  Tensors gradients(recorded_.gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto [from, index] = passed_gradients_[i];
    using From = PassedTensor::From;
    if (from == From::Before) gradients[i] = gradients[index];
    else if (from == From::Seed) gradients[i] = seeds[index];
    else if (from == From::Fresh)
      gradients[i] = tape_->tensor(recorded_.gradients[i], memory[index]);
    else if (from == From::Tape) gradients[i] = tape_->tensor(recorded_.gradients[i]).clone();
  }
  return gradients;
}

}  // namespace ikebana::detail
