#pragma once
// Calls an optimizer of torch::optim so that its step can be undone, by the host or by the device.
#include <algorithm>
#include <ikebana/detail/flag_copy.hpp>
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/optimizer/libtorch/libtorch_state.hpp>
#include <optional>

namespace ikebana::detail {

/// The optimizer, the tensors that it updates, and copies of the parameters and of their state,
/// which undo an update, from its begin to the end of the step.
template <class Optimizer>
class LibTorchRun {
 public:
  using State = param_state_t<Optimizer>;
  static constexpr bool keeps_state = !std::is_same_v<State, torch::optim::OptimizerParamState>;

  /// Makes the tensors that the optimizer updates: the masters themselves, or, if updates of a
  /// master are rounded, an FP32 tensor, which has memory during an update only.
  void begin(const Masters& masters) {
    masters_ = masters;
    if (masters.storage != nullptr)
      throw BadValue(
          "LibTorchOptimizer: a policy of the recipe stores the state of optimizers apart, and " +
          type_name<Optimizer>() +
          " makes its own in `step`. Write one of the library's optimizers, or leave that policy "
          "out.");
    if (!masters.values.empty()) nothing_ = at::empty({0}, exact_options(masters.values[0]));
    for (const at::Tensor& p : masters.values) {
      operands_.push_back(is_rounded(p) ? exact(p).requires_grad_() : p);
      layouts_.push_back({p.sizes().vec(), p.strides().vec(), p.options()});
      if (is_rounded(p)) max_elements_ = std::max(max_elements_, p.numel());
    }
  }
  const at::Tensor& operand(std::size_t i) const { return operands_[i]; }
  template <class ParamGroups>
  void take(std::unique_ptr<Optimizer> made, ParamGroups& given) {
    auto same = [](auto& a, auto& b) {
      return std::ranges::equal(a.params(), b.params(),
                                [](const auto& p, const auto& q) { return p.is_same(q); });
    };
    if (!made || !std::ranges::equal(made->param_groups(), given, same))
      throw BadValue(
          "LibTorchOptimizer: `make` returned an optimizer of other parameter groups. "
          "Pass on those that it is given.");
    optimizer_ = std::move(made);
    end_step();
  }
  Optimizer& optimizer() { return *optimizer_; }

  void prepare(const StepGradients& gradients) {
    for (std::size_t i : gradients.indices)
      if (const at::Tensor& p = masters_.values[i];
          p.sizes() != layouts_[i].sizes || p.strides() != layouts_[i].strides ||
          p.dtype() != layouts_[i].options.dtype() || p.device() != layouts_[i].options.device())
        throw BadModel("LibTorchOptimizer: `" + masters_.names[i] +
                       "` changed its shape, type, device or memory format after the trainer was "
                       "made. Change the model before.");
    if (max_elements_ > 0)
      masters_.rounding->prepare_rounding(exact_options(masters_.values[0]), max_elements_);
  }
  void update(const StepGradients& gradients) {
    const at::Tensor& flag = gradients.found_inf;
    const bool on_device = flag.defined() && !readable(flag);
    if (flag.defined() && !on_device && number(flag) != 0) return;
    settle();
    at::NoGradGuard no_grad;
    keep();
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (is_rounded(masters_.values[i])) operands_[i].set_data(exact(masters_.values[i]));
    set_gradients(gradients);
    if constexpr (std::derived_from<Optimizer, torch::optim::RMSprop>) add_momentum_buffers();
    optimizer_->step();
    check_state();
    for (std::size_t i : gradients.indices)
      if (const at::Tensor& p = masters_.values[i]; is_rounded(p))
        masters_.rounding->write(in_memory_order(p), in_memory_order(operands_[i]),
                                 masters_.first + i);
    if (!on_device) return;
    copies_.put_back_if(flag);
    rejected_.emplace(flag);  // numbers of the state are put back later
  }
  void end_step() noexcept {
    is_kept_ = false;
    if (rejected_) copies_.clear_device();
    else copies_.clear(), states_.clear();
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      operands_[i].mutable_grad().reset();
      if (is_rounded(masters_.values[i])) operands_[i].set_data(nothing_);
    }
  }
  void abort() noexcept {
    if (is_kept_) {
      rejected_.reset();
      put_back();
    }
    end_step();
  }
  void state(Archive& archive) {
    if constexpr (!keeps_state) return;
    else {
      settle();
      if (archive.checking()) loaded_.clear();
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        const at::Tensor& p = masters_.values[i];
        if (archive.checking())
          loaded_.push_back(
              load_state<State>(archive, masters_.names[i], is_rounded(p) ? exact(p) : p));
        else if (archive.loading()) put(i, std::move(loaded_[i]));
        else if (const State* state = state_of(i)) save_state(archive, masters_.names[i], *state);
      }
    }
  }

 private:
  struct Layout {
    std::vector<std::int64_t> sizes, strides;
    at::TensorOptions options;
  };

  bool is_rounded(const at::Tensor& p) const { return detail::is_rounded(masters_.rounding, p); }
  static at::TensorOptions exact_options(const at::Tensor& p) {
    return p.options().dtype(at::kFloat).requires_grad(false);
  }
  static at::Tensor exact(const at::Tensor& p) {
    return at::empty_like(p.detach(), exact_options(p)).copy_(p.detach());
  }
  void* key(std::size_t i) const { return operands_[i].unsafeGetTensorImpl(); }
  /// Returns the state of a parameter, or null if it has no state.
  const State* state_of(std::size_t i) const {
    auto found = optimizer_->state().find(key(i));
    if (found == optimizer_->state().end() || !found->second) return nullptr;
    const auto* state = dynamic_cast<const State*>(found->second.get());
    if (!state)
      throw BadModel("LibTorchOptimizer: the state of " + type_name<Optimizer>() +
                     " is of another type than its ParamState, " + type_name<State>() +
                     ". Correct `using ParamState` in its class.");
    return state;
  }
  void put(std::size_t i, std::unique_ptr<State> state) {
    if (state) optimizer_->state()[key(i)] = std::move(state);
    else optimizer_->state().erase(key(i));
  }
  void put_back() {
    copies_.put_back();
    for (std::size_t i = 0; i < states_.size(); ++i) put(i, std::move(states_[i]));
    states_.clear();
  }
  void keep() {
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      copies_.keep(masters_.values[i]);
      if constexpr (keeps_state) {
        const State* state = state_of(i);
        states_.push_back(state ? std::make_unique<State>(*state) : nullptr);
        if (state)
          for (const at::Tensor& t : tensors_of(*state)) copies_.keep(t);
      }
    }
    is_kept_ = true;
  }
  void set_gradients(const StepGradients& gradients) {
    for (const at::Tensor& operand : operands_) operand.mutable_grad().reset();
    for (std::size_t k = 0; k < gradients.indices.size(); ++k) {
      const at::Tensor& operand = operands_[gradients.indices[k]];
      operand.mutable_grad() = gradients.values[k].to(operand.scalar_type());
    }
  }
  /// RMSprop makes the buffer with the rest of its state, but not if the momentum is 0 at that
  /// time. A schedule or a user may raise it later.
  void add_momentum_buffers() {
    for (auto& group : optimizer_->param_groups()) {
      if (!(static_cast<const torch::optim::RMSpropOptions&>(group.options()).momentum() > 0))
        continue;
      for (const at::Tensor& p : group.params()) {
        const auto found = optimizer_->state().find(p.unsafeGetTensorImpl());
        auto* state = found == optimizer_->state().end()
                          ? nullptr
                          : dynamic_cast<torch::optim::RMSpropParamState*>(found->second.get());
        if (state != nullptr && !state->momentum_buffer().defined())
          state->momentum_buffer(at::zeros_like(p));
      }
    }
  }
  /// Throws BadModel for state that could not be saved.
  void check_state() {
    std::size_t owned = 0;
    if constexpr (keeps_state)
      for (std::size_t i = 0; i < operands_.size(); ++i)
        if (const State* state = state_of(i)) {
          ++owned;
          if constexpr (!is_libtorch_state<State>)
            if (!states_[i]) check_values_of_state<Optimizer>(bridge::values_of(base_of(*state)));
        }
    if (owned != optimizer_->state().size())
      throw BadModel(
          "LibTorchOptimizer: " + type_name<Optimizer>() +
          (keeps_state
               ? " keeps state that belongs to no parameter; it could not be saved. Keep it "
                 "by parameter."
               : " keeps state. Write `using ParamState = ...;` in its class."));
  }
  /// If the device rejected the last update, also undoes its numbers, its tensors on the host and
  /// the state that it created.
  void settle() {
    if (rejected_ && rejected_->wait()) put_back();
    rejected_.reset();
    copies_.clear(), states_.clear();
  }

  Masters masters_;
  Tensors operands_;    // the tensors that the optimizer updates, by master
  at::Tensor nothing_;  // no elements, for operands without memory
  std::vector<Layout> layouts_;
  std::int64_t max_elements_ = 0;  // the number of elements of the largest rounded master
  std::unique_ptr<Optimizer> optimizer_;
  UpdateCopies copies_;                         // the copies of the masters and of the tensors of
                                                // their state
  bool is_kept_ = false;                        // the copies are complete
  std::vector<std::unique_ptr<State>> states_;  // former states, with their tensors
  std::vector<std::unique_ptr<State>> loaded_;  // the states that checking made, which loading
                                                // takes
  std::optional<FlagCopy> rejected_;            // set after an update if only the device knows
};

}  // namespace ikebana::detail
