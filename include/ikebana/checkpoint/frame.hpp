#pragma once
// Non-reentrant activation checkpointing: forward keeps the inputs, and backward recomputes when it
// first needs a saved tensor. Frames nest: the inputs of an inner frame are saved by autograd
// inside the outer frame, so the outer frame drops and recomputes them too.
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/checkpoint/draws.hpp>
#include <ikebana/checkpoint/known_tensors.hpp>
#include <ikebana/checkpoint/saved_inputs.hpp>
#include <ikebana/checkpoint/slots.hpp>
#include <ikebana/checkpoint/versions.hpp>
#include <ikebana/detail/recomputing.hpp>

namespace ikebana::detail {

/// One checkpointed computation, of one unit or of several in a row. In forward it counts the
/// tensors that autograd would save; in backward it runs the units again and keeps those tensors.
/// Its hooks share ownership of it, so it exists as long as the graph.
template <class Kept = KeepNothing>
class Frame : public bridge::SavedTensorHooks, public std::enable_shared_from_this<Frame<Kept>> {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Runs a unit again: its tensor arguments in, its tensor results out.
  using Recompute = std::function<Tensors(const Tensors& arguments)>;

  /// `rule` must outlive the frame's forward.
  Frame(c10::Device device, const typename Kept::Rule& rule)
      : device_(device), kept_(rule, slots_) {}

  /// Call before a unit's forward, because that may itself start a backward, and outside of
  /// ForwardScope, because an outer frame must see the inputs that are saved: those arguments that
  /// this frame does not know already.
  void begin_unit(std::shared_ptr<const RecomputedUnit> unit, const Tensors& arguments,
                  Recompute recompute) {
    if (!unit->cudnn_dropout.empty() && unit->module->is_training()) refuse_dropout(*unit);
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
  /// RAII around the unit's forward.
  class ForwardScope {
   public:
    explicit ForwardScope(Frame& frame)
        : saved_tensors_(&frame),
          draws_(frame.units_.back().rng_autocast, frame.units_.back().draws),
          random_operators_(draws_),
          kept_(frame.kept_.record()) {}

   private:
    bridge::SavedTensorScope saved_tensors_;
    RecordDraws draws_;
    bridge::OperatorScope<bridge::RandomOperators> random_operators_;
    typename Kept::Scope kept_;
  };
  /// Call after the unit's forward.
  void end_unit() {
    UnitCall& call = units_.back();
    call.rng_moved = call.rng_autocast.positions_now().differ(call.rng_autocast.positions());
    call.state.forward_ended(*call.unit);
    kept_.forward_ended(slots_.size());
  }
  /// Adds an argument or result of a unit: it needs not be saved when another unit of this frame
  /// takes it as an argument.
  void add_known(const at::Tensor& t) { known_.add(t); }
  /// Call if no further unit will join the frame.
  void complete() { known_.clear(); }
  /// True for a result of the last unit that was not changed in place since.
  bool is_last_result(const at::Tensor& t) const {
    std::size_t index = known_.index_of(t);
    return index < known_.size() && index >= last_results_;
  }
  std::size_t unit_count() const { return units_.size(); }
  /// True once a backward needed a tensor of this frame: no unit may join it any more.
  bool backward_started() const { return backward_started_; }

  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<SlotHooks>(this->shared_from_this());
  }

 private:
  static constexpr auto undefined =
      static_cast<std::size_t>(-1);  // of an argument without a tensor

  struct UnitCall {
    std::shared_ptr<const RecomputedUnit> unit;
    bridge::RngAutocastState rng_autocast;
    UnitState state;
    at::Tensor saved_inputs;                    // holder made by SaveInputs
    std::vector<std::size_t> argument_indices;  // into the frame's known tensors, or `undefined`
    Recompute recompute;
    bridge::RngSet rng_moved = {};  // not known before the forward ended: both
    std::vector<RandomCall> draws = {};
  };
  /// The hooks of one saved tensor in forward: the graph holds a slot instead of the tensor.
  struct SlotHooks : torch::autograd::SavedVariableHooks {
    std::shared_ptr<Frame> frame;
    std::size_t slot = std::size_t(-1);
    explicit SlotHooks(std::shared_ptr<Frame> f) : frame(std::move(f)) {}
    ~SlotHooks() override { frame->slots_.release(slot); }
    void call_pack_hook(const at::Tensor& t) override { slot = frame->slots_.add(t); }
    at::Tensor call_unpack_hook() override { return frame->unpack(slot); }
  };
  /// The hooks during a recompute: collects the tensors of the slots, and stops the recompute by an
  /// exception when it has them all.
  struct FillSlots : bridge::SavedTensorHooks {
    struct AllFilled {};  // not a std::exception, so that a model's handlers do not catch it
    struct Hooks : torch::autograd::SavedVariableHooks {
      FillSlots* fill;
      at::Tensor saved;
      explicit Hooks(FillSlots* f) : fill(f) {}
      void call_pack_hook(const at::Tensor& t) override {
        saved = t.tensor_data();  // shares memory and version, but has no history
        Frame& owner = *fill->frame;
        if (fill->tensors.size() == owner.slots_.size()) return;  // only where it goes on
        owner.slots_.fill(fill->tensors, saved, owner.name());
        if (fill->tensors.size() == owner.slots_.size() && !owner.kept_.goes_on())
          throw AllFilled{};
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
  /// RAII: restores a unit's buffers to their values from before the recompute.
  struct RestoreBuffers {
    BufferValues before;
    explicit RestoreBuffers(const torch::nn::Module& module) : before(module) {}
    ~RestoreBuffers() { before.restore(); }
    RestoreBuffers(const RestoreBuffers&) = delete;
    RestoreBuffers& operator=(const RestoreBuffers&) = delete;
  };

  [[noreturn]] static void refuse_dropout(const RecomputedUnit& unit) {
    throw BadModel("checkpoint: `" + unit.cudnn_dropout + "` in `" + unit.name +
                   "` drops out between its layers by cuDNN, whose random numbers a recompute "
                   "cannot draw again. Stack layers with torch::nn::Dropout between them, leave it "
                   "out of the unit, or call at::globalContext().setUserEnabledCuDNN(false).");
  }
  const std::string& name() const {
    return units_.size() == 1 ? units_[0].unit->name : joined_names_;
  }

  at::Tensor unpack(std::size_t slot) {
    backward_started_ = true;
    int task = torch::autograd::get_current_graph_task_id();
    if (at::Tensor t = slots_.get(task, slot, name()); t.defined()) return t;
    std::lock_guard lock(mutex_);
    if (!slots_.filled(task)) recompute(task);
    return slots_.get(task, slot, name());
  }
  void recompute(int task) {
    std::vector<Tensors> inputs;  // loading them may start the recompute of an outer frame
    for (const UnitCall& call : units_) inputs.push_back(SaveInputs::load(call.saved_inputs));
    for (const UnitCall& call : units_)
      if (call.state.changed()) Slots::throw_modified(call.unit->name);
    kept_.before_recompute(inputs, [&](Tensors& results) {
      return saved_by_units(inputs, /*last_attempt=*/false, &results);
    });
    std::optional<Tensors> tensors = saved_by_units(inputs, /*last_attempt=*/false);
    if (!tensors) tensors = saved_by_units(inputs, /*last_attempt=*/true);
    kept_.after_recompute();
    slots_.store(task, *std::move(tensors), name());
    if (task < 0) return;
    if (!torch::autograd::get_current_graph_task_keep_graph()) kept_.clear();
    torch::autograd::Engine::get_default_engine().queue_callback(
        [weak = this->weak_from_this(), task] {
          if (auto frame = weak.lock()) frame->slots_.forget(task);
        });
  }
  /// Runs the units and returns what autograd saves; nothing if that must be repeated, because
  /// other random numbers were drawn than in forward. `results`: of a run to the end.
  std::optional<Tensors> saved_by_units(const std::vector<Tensors>& inputs, bool last_attempt,
                                        Tensors* results = nullptr) {
    FillSlots fill(this, last_attempt);
    try {
      run_units(inputs, fill, results);
    } catch (const typename FillSlots::AllFilled&) {
    } catch (const CompareDraws::Again&) {
      return {};
    }
    return std::move(fill.tensors);
  }
  void run_units(const std::vector<Tensors>& inputs, FillSlots& fill, Tensors* last_results) {
    at::AutoGradMode grad(true);
    RecomputingScope scope;
    std::deque<RestoreBuffers> buffers;
    for (const UnitCall& call : units_) buffers.emplace_back(*call.unit->module);
    auto&& replay = kept_.replay(name(), fill.draws);
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
      typename Kept::Scope kept(replay);
      Tensors results = call.recompute(arguments);
      known.insert(known.end(), results.begin(), results.end());
      if (last_results != nullptr) *last_results = std::move(results);
    }
  }

  c10::Device device_;
  std::vector<UnitCall> units_;
  std::string joined_names_;      // of several units
  KnownTensors known_;            // inputs and results, in the order in which recompute has them
  std::size_t last_results_ = 0;  // where the results of the last unit start in known_
  Slots slots_;
  Kept kept_;
  std::mutex mutex_;
  std::atomic<bool> backward_started_ = false;
};

}  // namespace ikebana::detail
