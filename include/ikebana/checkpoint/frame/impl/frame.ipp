#pragma once
#include <ikebana/checkpoint/frame/frame.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::size_t Slots::add(const at::Tensor& t) {
  signatures_.push_back({c10::DimVector(t.sizes()), t.scalar_type(), Version(t)});
  return signatures_.size() - 1;
}

IKEBANA_INLINE void Slots::fill(std::vector<at::Tensor>& tensors, const at::Tensor& t,
                                const std::string& unit) const {
  const Signature& signature = signatures_.at(tensors.size());
  if (t.sizes() != signature.sizes || t.scalar_type() != signature.dtype)
    throw BadRecompute(
        "checkpoint: recompute of `" + unit + "` saved " + text(t.sizes(), t.scalar_type()) +
        " where forward saved " + text(signature.sizes, signature.dtype) +
        ". The unit's forward must do the same each time; move what changes out of it, or pass "
        "it as an argument.");
  tensors.push_back(t);
}

IKEBANA_INLINE void Slots::store(int task, std::vector<at::Tensor> tensors,
                                 const std::string& unit) {
  if (tensors.size() != signatures_.size())
    throw BadRecompute("checkpoint: recompute of `" + unit + "` saved " +
                       std::to_string(tensors.size()) + " tensors, forward " +
                       std::to_string(signatures_.size()) +
                       ". The unit's forward must do the same each time.");
  std::vector<Value> values;
  values.reserve(tensors.size());
  for (auto& t : tensors) {
    Version version(t);
    values.push_back({std::move(t), std::move(version)});
  }
  std::lock_guard lock(mutex_);
  filled_[task] = std::move(values);
}

IKEBANA_INLINE bool Slots::filled(int task) {
  std::lock_guard lock(mutex_);
  return filled_.count(task) != 0;
}

IKEBANA_INLINE at::Tensor Slots::get(int task, std::size_t slot, const std::string& unit) {
  if (signatures_.at(slot).version.changed()) throw_modified(unit);
  std::lock_guard lock(mutex_);
  auto found = filled_.find(task);
  if (found == filled_.end()) return {};
  const Value& value = found->second.at(slot);
  if (value.version.changed()) throw_modified(unit);
  return value.tensor;
}

IKEBANA_INLINE void Slots::release(std::size_t slot) {
  std::lock_guard lock(mutex_);
  for (auto& [task, values] : filled_)
    if (slot < values.size()) values[slot].tensor.reset();
}

IKEBANA_INLINE void Slots::forget(int task) {
  std::lock_guard lock(mutex_);
  filled_.erase(task);
}

IKEBANA_INLINE void Slots::throw_modified(const std::string& unit) {
  throw BadRecompute("checkpoint: a tensor that `" + unit +
                     "` saved for backward has been modified by an in-place operation since. "
                     "Change a copy, or change it after backward.");
}

IKEBANA_INLINE std::string Slots::text(at::IntArrayRef sizes, at::ScalarType dtype) {
  return std::string(c10::toString(dtype)) + c10::str(sizes);
}

IKEBANA_INLINE at::Tensor SaveInputs::forward(torch::autograd::AutogradContext* context,
                                              const at::Tensor& token, at::TensorList inputs) {
  context->save_for_backward(inputs.vec());
  return at::empty({0}, token.options());
}

IKEBANA_INLINE torch::autograd::variable_list SaveInputs::backward(
    torch::autograd::AutogradContext*, torch::autograd::variable_list) {
  throw BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.");
}

IKEBANA_INLINE at::Tensor SaveInputs::save(at::TensorList inputs) {
  return SaveInputs::apply(at::empty({0}).set_requires_grad(true), inputs);
}

IKEBANA_INLINE std::vector<at::Tensor> SaveInputs::load(const at::Tensor& holder) {
  auto node = holder.grad_fn();
  return static_cast<torch::autograd::CppNode<SaveInputs>*>(node.get())->ctx_.get_saved_variables();
}

[[noreturn]] IKEBANA_INLINE void refuse_cudnn_dropout(const RecomputedUnit& unit) {
  throw BadModel("checkpoint: `" + unit.cudnn_dropout + "` in `" + unit.name +
                 "` drops out between its layers by cuDNN, whose random numbers a recompute "
                 "cannot draw again. Stack layers with torch::nn::Dropout between them, leave it "
                 "out of the unit, or call at::globalContext().setUserEnabledCuDNN(false).");
}

/// The hooks of one saved tensor in forward: the graph holds a slot instead of the tensor.
struct Frame::SlotHooks : torch::autograd::SavedVariableHooks {
  std::shared_ptr<Frame> frame;
  std::size_t slot = std::size_t(-1);
  explicit SlotHooks(std::shared_ptr<Frame> f) : frame(std::move(f)) {}
  ~SlotHooks() override { frame->slots_.release(slot); }
  void call_pack_hook(const at::Tensor& t) override { slot = frame->slots_.add(t); }
  at::Tensor call_unpack_hook() override { return frame->unpack(slot); }
};

IKEBANA_INLINE void Frame::begin_unit(std::shared_ptr<const RecomputedUnit> unit,
                                      const Tensors& arguments, Recompute recompute) {
  if (!unit->cudnn_dropout.empty() && unit->module->is_training()) refuse_cudnn_dropout(*unit);
  Tensors new_inputs;
  std::vector<std::size_t> argument_indices;
  for (const at::Tensor& t : arguments) {
    argument_indices.push_back(t.defined() ? known_.index_of(t) : undefined);
    if (!t.defined() || argument_indices.back() < known_.size()) continue;
    known_.add(t);
    new_inputs.push_back(t);
  }
  last_results_ = known_.size();
  if (!units_.empty()) joined_names_ = name() + ", " + unit->name;
  bridge::RngAutocastState rng_autocast = bridge::RngAutocastState::capture(device_);
  UnitState state(*unit->module);
  units_.push_back({std::move(unit), std::move(rng_autocast), std::move(state),
                    SaveInputs::save(new_inputs), std::move(argument_indices),
                    std::move(recompute)});
}

IKEBANA_INLINE Frame::ForwardScope::ForwardScope(Frame& frame)
    : saved_tensors_(&frame),
      draws_(frame.units_.back().rng_autocast, frame.units_.back().draws),
      random_operators_(draws_) {
  if (bridge::OperatorMode* mode = frame.record()) kept_.emplace(*mode);
}

IKEBANA_INLINE Frame::ForwardScope::~ForwardScope() = default;

IKEBANA_INLINE void Frame::end_unit() {
  UnitCall& call = units_.back();
  call.rng_moved = call.rng_autocast.positions_now().differ(call.rng_autocast.positions());
  // A replay of this step may draw where it did not, and a kept result sets its generator in any
  // case.
  for (const RandomCall& draw : call.draws) call.rng_moved = call.rng_moved | draw.may_draw_from;
  call.state.forward_ended(*call.unit);
  forward_ended();
}

IKEBANA_INLINE bool Frame::is_last_result(const at::Tensor& t) const {
  std::size_t index = known_.index_of(t);
  return index < known_.size() && index >= last_results_;
}

IKEBANA_INLINE std::unique_ptr<torch::autograd::SavedVariableHooks> Frame::make() {
  return std::make_unique<SlotHooks>(shared_from_this());
}

IKEBANA_INLINE const std::string& Frame::name() const {
  return units_.size() == 1 ? units_[0].unit->name : joined_names_;
}

IKEBANA_INLINE bridge::OperatorMode* Frame::record() { return nullptr; }

IKEBANA_INLINE void Frame::replay(CompareDraws&, Run run) { run(nullptr); }

IKEBANA_INLINE void Frame::forward_ended() {}

IKEBANA_INLINE void Frame::clear() {}

IKEBANA_INLINE bool Frame::goes_on() { return false; }

IKEBANA_INLINE void Frame::before_recompute(const std::vector<Tensors>&, Rehearse) {}

IKEBANA_INLINE void Frame::after_recompute() {}

IKEBANA_INLINE at::Tensor Frame::unpack(std::size_t slot) {
  backward_started_ = true;
  int task = torch::autograd::get_current_graph_task_id();
  if (at::Tensor t = slots_.get(task, slot, name()); t.defined()) return t;
  std::lock_guard lock(mutex_);
  if (!slots_.filled(task)) recompute(task);
  return slots_.get(task, slot, name());
}

IKEBANA_INLINE std::shared_ptr<Frame> full_frame(c10::Device device) {
  return at::GradMode::is_enabled() ? make_shared_apart<Frame>(device) : nullptr;
}

}  // namespace ikebana::detail
