#pragma once
// Non-reentrant activation checkpointing: forward keeps inputs, and backward computes again when it
// first asks for a tensor. Frames nest: an inner frame's inputs are saved by autograd inside the
// outer frame, so the outer frame drops them too.
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/checkpoint/record.hpp>
#include <ikebana/checkpoint/replay.hpp>
#include <ikebana/checkpoint/saved_inputs.hpp>
#include <ikebana/detail/recomputing.hpp>

namespace ikebana::detail {

/// One checkpointed computation, of one unit or of several in a row: in forward it counts what
/// autograd would save, in backward it saves that in a second run. Kept alive by the graph, through
/// the hooks it made.
class Frame : public bridge::SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// A unit once more: its tensor arguments in, its tensor results out.
  using Again = std::function<Tensors(const Tensors& arguments)>;

  /// A rule chooses the operators whose outputs are kept; it must outlive the frame's forward.
  explicit Frame(c10::Device device, const OperatorRule* rule = nullptr) : device_(device) {
    if (rule) record_.emplace(kept_, *rule, slots_);
  }

  /// Before a unit's forward, which may itself ask for a gradient; outside of the frame's scope,
  /// since an outer frame is to see what is kept: the arguments that are not in the frame already.
  void begin(std::shared_ptr<const RecomputedUnit> unit, const Tensors& arguments, Again again) {
    Tensors fresh;
    std::vector<std::size_t> from;
    for (const at::Tensor& t : arguments) {
      from.push_back(place_of(t));
      if (from.back() < known_.size()) continue;
      knows(t);
      fresh.push_back(t);
    }
    returned_ = known_.size();
    if (!parts_.empty()) names_ = name() + ", " + unit->name;
    bridge::RngAutocastState ambient = bridge::RngAutocastState::capture(device_);
    UnitState state(*unit->module);
    parts_.push_back({std::move(unit), std::move(ambient), std::move(state),
                      SaveInputs::hold(fresh), std::move(from), std::move(again)});
  }
  /// Surrounds the unit's forward.
  class Forward {
   public:
    explicit Forward(Frame& frame) : saved_(&frame) {
      if (frame.record_) operators_.emplace(*frame.record_);
    }

   private:
    bridge::SavedTensorScope saved_;
    std::optional<bridge::OperatorScope> operators_;
  };
  void end() {
    parts_.back().state.forward_ended(*parts_.back().unit);
    kept_.forward_ended(slots_.size());
  }
  /// An argument or a result of a unit, which another one may be given in the same frame.
  void knows(const at::Tensor& t) { known_.push_back({Weak(t.getIntrusivePtr()), Version(t)}); }
  /// No further unit will join.
  void complete() { known_.clear(); }
  bool returned(const at::Tensor& t) const {
    std::size_t place = place_of(t);
    return place < known_.size() && place >= returned_;
  }
  std::size_t units() const { return parts_.size(); }
  /// True once backward came to it: from then on nothing may join it.
  bool asked() const { return asked_; }

  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<Pack>(shared_from_this());
  }

 private:
  struct Part {
    std::shared_ptr<const RecomputedUnit> unit;
    bridge::RngAutocastState ambient;
    UnitState state;
    at::Tensor inputs;              // held by SaveInputs
    std::vector<std::size_t> from;  // where each argument stands among what the frame knows
    Again again;
  };
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  /// A tensor of forward, by its identity and as long as nobody changes it in place.
  struct Known {
    Weak tensor;
    Version version;

    bool is(const at::Tensor& t) const {
      return tensor._unsafe_get_target() == t.unsafeGetTensorImpl() && !version.changed();
    }
  };
  /// Stands in the graph for one saved tensor.
  struct Pack : torch::autograd::SavedVariableHooks {
    std::shared_ptr<Frame> frame;
    std::size_t slot = std::size_t(-1);
    explicit Pack(std::shared_ptr<Frame> f) : frame(std::move(f)) {}
    ~Pack() override { frame->slots_.drop(slot); }
    void call_pack_hook(const at::Tensor& t) override { slot = frame->slots_.add(t); }
    at::Tensor call_unpack_hook() override { return frame->unpack(slot); }
  };
  /// Fills the slots while units are computed again, and stops that when the last one is full.
  struct Fill : bridge::SavedTensorHooks {
    struct Full {};  // not a std::exception: a model that catches those must not swallow it
    struct Hooks : torch::autograd::SavedVariableHooks {
      Fill* fill;
      at::Tensor kept;
      explicit Hooks(Fill* f) : fill(f) {}
      void call_pack_hook(const at::Tensor& t) override {
        kept = t.tensor_data();  // shares memory and version, and no history
        fill->frame->slots_.fill(fill->values, kept, fill->frame->name());
        if (fill->values.size() == fill->frame->slots_.size()) throw Full{};
      }
      at::Tensor call_unpack_hook() override { return kept; }
    };
    Frame* frame;
    Tensors values;
    explicit Fill(Frame* f) : frame(f) { values.reserve(f->slots_.size()); }
    std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
      return std::make_unique<Hooks>(this);
    }
  };
  /// The buffers of a unit as they are now; put back however the recompute ends.
  struct KeepBuffers {
    BufferValues now;
    explicit KeepBuffers(const torch::nn::Module& module) : now(module) {}
    ~KeepBuffers() { now.put_back(); }
    KeepBuffers(const KeepBuffers&) = delete;
    KeepBuffers& operator=(const KeepBuffers&) = delete;
  };

  const std::string& name() const { return parts_.size() == 1 ? parts_[0].unit->name : names_; }
  std::size_t place_of(const at::Tensor& t) const {
    auto found =
        std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.is(t); });
    return static_cast<std::size_t>(found - known_.begin());
  }

  at::Tensor unpack(std::size_t slot) {
    asked_ = true;
    int task = torch::autograd::get_current_graph_task_id();
    if (at::Tensor t = slots_.get(task, slot, name()); t.defined()) return t;
    std::lock_guard lock(mutex_);
    if (!slots_.filled(task)) recompute(task);
    return slots_.get(task, slot, name());
  }
  void recompute(int task) {
    std::vector<Tensors> inputs;  // an outer frame recomputes here
    for (const Part& part : parts_) inputs.push_back(SaveInputs::held_by(part.inputs));
    for (const Part& part : parts_)
      if (part.state.changed()) Slots::changed(part.unit->name);
    Fill fill(this);
    try {
      run_again(inputs, fill);
    } catch (const Fill::Full&) {
    }
    slots_.accept(task, std::move(fill.values), name());
    if (task < 0) return;
    if (!torch::autograd::get_current_graph_task_keep_graph()) kept_.clear();
    torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this(), task] {
      if (auto frame = weak.lock()) frame->slots_.forget(task);
    });
  }
  void run_again(std::vector<Tensors>& inputs, Fill& fill) {
    at::AutoGradMode grad(true);
    RecomputingScope scope;
    std::deque<KeepBuffers> buffers;
    for (const Part& part : parts_) buffers.emplace_back(*part.unit->module);
    Replay replay(kept_, name());
    Tensors known;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      known.insert(known.end(), inputs[i].begin(), inputs[i].end());
      Tensors arguments;
      for (std::size_t place : part.from) arguments.push_back(known[place]);
      part.state.put_back();
      bridge::RngAutocastState::Replay ambient(part.ambient, /*weight_cache=*/false);
      bridge::AutocastNesting nesting;
      bridge::SavedTensorScope hooks(&fill);
      std::optional<bridge::OperatorScope> operators;
      if (record_) operators.emplace(replay);
      Tensors results = part.again(arguments);
      known.insert(known.end(), results.begin(), results.end());
    }
  }

  c10::Device device_;
  std::vector<Part> parts_;
  std::string names_;         // of several parts
  std::vector<Known> known_;  // inputs and results, in the order in which recompute has them
  std::size_t returned_ = 0;  // the first result of the last unit among them
  Slots slots_;
  KeptCalls kept_;
  std::optional<Record> record_;
  std::mutex mutex_;
  std::atomic<bool> asked_ = false;
};

}  // namespace ikebana::detail
