#pragma once
// The recompute of a frame: runs its units again, and collects the tensors that autograd saves.
#include <deque>
#include <ikebana/checkpoint/frame/frame.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/detail/recomputing.hpp>

namespace ikebana::detail {

/// RAII: restores a unit's buffers to their values from before the recompute.
struct RestoreBuffers {
  BufferValues before;
  explicit RestoreBuffers(const torch::nn::Module& module) : before(module) {}
  ~RestoreBuffers() { before.restore_quietly(); }
  RestoreBuffers(const RestoreBuffers&) = delete;
  RestoreBuffers& operator=(const RestoreBuffers&) = delete;
};

/// The hooks during a recompute: collects the tensors of the slots, and stops the recompute by an
/// exception when it has them all.
struct Frame::FillSlots : bridge::SavedTensorHooks {
  struct Hooks : torch::autograd::SavedVariableHooks {
    FillSlots* fill;
    at::Tensor saved;
    explicit Hooks(FillSlots* f) : fill(f) {}
    void call_pack_hook(const at::Tensor& t) override {
      saved = t.tensor_data();  // shares memory and version, but has no history
      Frame& owner = *fill->frame;
      if (fill->tensors.size() == owner.slots_.size()) return;  // only if the recompute goes on
      owner.slots_.fill(fill->tensors, saved, owner.name());
      if (fill->tensors.size() == owner.slots_.size() && !owner.goes_on()) fill->draws.end();
    }
    at::Tensor call_unpack_hook() override { return saved; }
  };
  Frame* frame;
  Tensors tensors;
  CompareDraws draws;
  FillSlots(Frame* f, bool last_attempt) : frame(f), draws(last_attempt) {
    tensors.reserve(f->slots_.size());
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<Hooks>(this);
  }
};

IKEBANA_INLINE void Frame::recompute(int task) {
  const InnerPhaseScope scope(InnerPhase::Recompute);
  std::vector<Tensors> inputs;  // loading them may start the recompute of an outer frame
  for (const UnitCall& call : units_) inputs.push_back(SaveInputs::load(call.saved_inputs));
  for (const UnitCall& call : units_)
    if (call.state.changed()) Slots::throw_modified(call.unit->name);
  before_recompute(inputs, [&](Tensors& results) {
    return saved_by_units(inputs, /*last_attempt=*/false, &results);
  });
  std::optional<Tensors> tensors = saved_by_units(inputs, /*last_attempt=*/false);
  if (!tensors) tensors = saved_by_units(inputs, /*last_attempt=*/true);
  after_recompute();
  slots_.store(task, *std::move(tensors), name());
  if (task < 0) return;
  if (!torch::autograd::get_current_graph_task_keep_graph()) clear();
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
    if (auto frame = weak.lock()) frame->slots_.forget(task);
  });
}

IKEBANA_INLINE std::optional<Frame::Tensors> Frame::saved_by_units(
    const std::vector<Tensors>& inputs, bool last_attempt, Tensors* results) {
  FillSlots fill(this, last_attempt);
  try {
    run_units(inputs, fill, results);
  } catch (const CompareDraws::AllSaved&) {
  } catch (const CompareDraws::Again&) {
    return {};
  }
  return std::move(fill.tensors);
}

IKEBANA_INLINE void Frame::run_units(const std::vector<Tensors>& inputs, FillSlots& fill,
                                     Tensors* last_results) {
  at::AutoGradMode grad(true);
  RecomputingScope scope;
  std::deque<RestoreBuffers> buffers;
  for (const UnitCall& call : units_) buffers.emplace_back(*call.unit->module);
  replay(fill.draws, [&](bridge::OperatorMode* mode) {
    Tensors known;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      UnitCall& call = units_[i];
      known.insert(known.end(), inputs[i].begin(), inputs[i].end());
      Tensors arguments;
      for (std::size_t index : call.argument_indices)
        arguments.push_back(index == undefined ? at::Tensor() : known[index]);
      call.state.restore_buffers();
      bridge::RngAutocastState::Replay rng_autocast(call.rng_autocast, /*weight_cache=*/false,
                                                    call.rng_moved);
      bridge::AutocastNesting nesting;
      bridge::SavedTensorScope hooks(&fill);
      fill.draws.begin_unit(call.rng_autocast, call.draws, name());
      bridge::OperatorScope<bridge::RandomOperators> random_operators(fill.draws);
      std::optional<bridge::OperatorScope<>> kept;
      if (mode != nullptr) kept.emplace(*mode);
      Tensors results = call.recompute(arguments);
      known.insert(known.end(), results.begin(), results.end());
      if (last_results != nullptr) *last_results = std::move(results);
    }
  });
}

}  // namespace ikebana::detail
