#pragma once
// Non-reentrant activation checkpointing: forward keeps a unit's inputs, and backward computes the
// unit again when it first asks for one of its tensors. Frames nest: an inner frame's inputs are
// saved by autograd inside the outer frame, so the outer frame drops them too.
#include <ikebana/bridge/ambient.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/checkpoint/slots.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

/// Saves tensors for backward and does nothing else: autograd then watches their versions, and the
/// hooks of an outer frame see them.
struct SaveInputs : torch::autograd::Function<SaveInputs> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& token,
                            at::TensorList inputs) {
    context->save_for_backward(inputs.vec());
    return at::empty({0}, token.options());
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.");
  }
};

/// One checkpointed computation: in forward it counts what autograd would save, in backward it
/// saves that in a second run. Kept alive by the graph, through the hooks it made.
class Frame : public bridge::SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  using Again = std::function<void(const std::vector<at::Tensor>& inputs)>;

  /// To be made outside the frame's own scope: an outer frame is to see the inputs being saved.
  Frame(std::shared_ptr<const RecomputedUnit> unit, const std::vector<at::Tensor>& inputs,
        c10::Device device)
      : unit_(std::move(unit)), ambient_(bridge::Ambient::capture(device)), state_(*unit_->module) {
    at::Tensor token = at::empty({0}).set_requires_grad(true);
    saved_ = SaveInputs::apply(token, at::TensorList(inputs));
  }
  void forward_ended() { state_.forward_ended(*unit_); }
  void set_again(Again again) { again_ = std::move(again); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<Pack>(shared_from_this());
  }

 private:
  /// Stands in the graph for one saved tensor.
  struct Pack : torch::autograd::SavedVariableHooks {
    std::shared_ptr<Frame> frame;
    std::size_t slot = std::size_t(-1);
    explicit Pack(std::shared_ptr<Frame> f) : frame(std::move(f)) {}
    ~Pack() override { frame->slots_.drop(slot); }
    void call_pack_hook(const at::Tensor& t) override { slot = frame->slots_.add(t); }
    at::Tensor call_unpack_hook() override { return frame->unpack(slot); }
  };
  /// Fills the slots while the unit is computed again, and stops it when the last one is full.
  struct Fill : bridge::SavedTensorHooks {
    struct Full {};  // not a std::exception: a model that catches those must not swallow it
    struct Hooks : torch::autograd::SavedVariableHooks {
      Fill* fill;
      at::Tensor kept;
      explicit Hooks(Fill* f) : fill(f) {}
      void call_pack_hook(const at::Tensor& t) override {
        kept = t.tensor_data();  // shares memory and version, and no history
        fill->frame->slots_.fill(fill->values, kept, fill->frame->unit_->name);
        if (fill->values.size() == fill->frame->slots_.size()) throw Full{};
      }
      at::Tensor call_unpack_hook() override { return kept; }
    };
    Frame* frame;
    std::vector<at::Tensor> values;
    explicit Fill(Frame* f) : frame(f) { values.reserve(f->slots_.size()); }
    std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
      return std::make_unique<Hooks>(this);
    }
  };
  /// The buffers of the unit as they are now; put back however the recompute ends.
  struct KeepBuffers {
    BufferValues now;
    explicit KeepBuffers(const torch::nn::Module& module) : now(module) {}
    ~KeepBuffers() { now.put_back(); }
    KeepBuffers(const KeepBuffers&) = delete;
    KeepBuffers& operator=(const KeepBuffers&) = delete;
  };

  at::Tensor unpack(std::size_t slot) {
    int task = torch::autograd::get_current_graph_task_id();
    if (at::Tensor t = slots_.get(task, slot, unit_->name); t.defined()) return t;
    std::lock_guard lock(mutex_);
    if (!slots_.filled(task)) recompute(task);
    return slots_.get(task, slot, unit_->name);
  }
  void recompute(int task) {
    auto node = saved_.grad_fn();
    auto inputs =
        static_cast<torch::autograd::CppNode<SaveInputs>*>(node.get())->ctx_.get_saved_variables();
    if (state_.changed()) Slots::changed(unit_->name);
    Fill fill(this);
    {
      at::AutoGradMode grad(true);
      RecomputingScope scope;
      KeepBuffers buffers(*unit_->module);
      state_.put_back();
      bridge::Ambient::Replay replay(ambient_, /*weight_cache=*/false);
      bridge::AutocastNesting nesting;
      bridge::SavedTensorScope hooks(&fill);
      try {
        again_(inputs);
      } catch (const Fill::Full&) {
      }
    }
    slots_.accept(task, std::move(fill.values), unit_->name);
    if (task >= 0)
      torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
        if (auto frame = weak.lock()) frame->slots_.forget(task);
      });
  }

  std::shared_ptr<const RecomputedUnit> unit_;
  bridge::Ambient ambient_;
  UnitState state_;
  at::Tensor saved_;
  Again again_;
  Slots slots_;
  std::mutex mutex_;
};

/// `body(args...)` with nothing kept for backward but the tensors in `args`. `owned` is a copy of
/// `body` that may be called later. Bitwise equal to a call without it.
template <class Body, class Owned, class... Args>
auto recompute_in_backward(std::shared_ptr<const RecomputedUnit> unit, c10::Device device,
                           const Body& body, Owned owned, Args&&... args) {
  std::tuple<std::decay_t<Args>...> kept(copied(std::forward<Args>(args))...);
  auto others = std::as_const(kept);
  auto inputs = take_tensors(others);  // a closure that held them would undo it all
  auto frame = std::make_shared<Frame>(std::move(unit), inputs, device);
  // Before forward: it may ask for a gradient itself, and then a part of it is computed again
  // already.
  frame->set_again(
      [others = std::move(others), owned = std::move(owned)](const auto& tensors) mutable {
        auto again = std::as_const(others);
        put_tensors(again, tensors);
        std::apply([&](auto&... arg) { owned(arg...); }, again);
      });
  auto result = [&] {
    bridge::SavedTensorScope scope(frame.get());
    return std::apply([&](auto&... arg) { return body(arg...); }, kept);
  }();
  frame->forward_ended();
  return result;
}

}  // namespace ikebana::detail
