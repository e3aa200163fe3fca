#pragma once
// Non-reentrant activation checkpointing: forward keeps the inputs, and backward recomputes when it
// first needs a saved tensor. Frames nest: the inputs of an inner frame are saved by autograd
// inside the outer frame, so the outer frame drops and recomputes them too. Each tensor that
// autograd saves has a slot: forward records its shape, dtype and version, and a recompute fills in
// the tensor, once per backward.
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/checkpoint/frame/draws.hpp>
#include <ikebana/checkpoint/frame/known_tensors.hpp>
#include <ikebana/checkpoint/frame/unit_state.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/detail/torch.hpp>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace ikebana::detail {

/// The slots of one frame.
class Slots {
 public:
  /// In forward: adds a slot with the tensor's shape, dtype and version; does not keep the tensor.
  std::size_t add(const at::Tensor& t);
  std::size_t size() const { return signatures_.size(); }

  /// In recompute: appends the tensor of the next slot. Throws BadRecompute if forward saved a
  /// tensor of another shape or dtype there.
  void fill(std::vector<at::Tensor>& tensors, const at::Tensor& t, const std::string& unit) const;
  /// After recompute: stores the tensors for the graph task. Throws BadRecompute if they are fewer
  /// than forward saved.
  void store(int task, std::vector<at::Tensor> tensors, const std::string& unit);
  bool filled(int task);
  /// Returns the slot's tensor; undefined if this backward has not recomputed yet. Throws
  /// BadRecompute if the tensor was changed in place after forward, or recompute, saved it.
  at::Tensor get(int task, std::size_t slot, const std::string& unit);
  /// A node released its saved tensor: frees the recomputed one, so that memory falls during the
  /// unit's backward.
  void release(std::size_t slot);
  void forget(int task);
  [[noreturn]] static void throw_modified(const std::string& unit);

 private:
  struct Signature {
    c10::DimVector sizes;
    at::ScalarType dtype;
    Version version;
  };
  struct Value {
    at::Tensor tensor;
    Version version;
  };
  static std::string text(at::IntArrayRef sizes, at::ScalarType dtype);

  std::vector<Signature> signatures_;
  std::map<int, std::vector<Value>> filled_;  // the values, by graph task
  std::mutex mutex_;
};

/// An autograd function that saves the inputs of a unit for backward and computes nothing. Autograd
/// then checks their versions, and the hooks of an outer frame apply to them.
struct SaveInputs : torch::autograd::Function<SaveInputs> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& token,
                            at::TensorList inputs);
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list);

  /// Returns an empty tensor whose grad_fn keeps `inputs`.
  static at::Tensor save(at::TensorList inputs);
  static std::vector<at::Tensor> load(const at::Tensor& holder);
};

/// One checkpointed computation, of one unit or of several in a row. In forward it counts the
/// tensors that autograd would save; in backward it runs the units again and keeps those tensors.
/// Its hooks share ownership of it, so it exists as long as the graph. It keeps nothing of forward
/// besides the inputs; derived classes keep more (SelectiveFrame), or measure (RehearsedFrame).
class Frame : public bridge::SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  using Tensors = std::vector<at::Tensor>;
  /// Runs a unit again: its tensor arguments in, its tensor results out.
  using Recompute = std::function<Tensors(const Tensors& arguments)>;

  explicit Frame(c10::Device device) : device_(device) {}

  /// Call before a unit's forward, because that may itself start a backward, and outside of
  /// ForwardScope, because an outer frame must see the inputs that are saved. These are the
  /// arguments that this frame does not know already.
  void begin_unit(std::shared_ptr<const RecomputedUnit> unit, const Tensors& arguments,
                  Recompute recompute);
  /// RAII around the unit's forward.
  class ForwardScope {
   public:
    explicit ForwardScope(Frame& frame);
    ~ForwardScope();
    ForwardScope(const ForwardScope&) = delete;
    ForwardScope& operator=(const ForwardScope&) = delete;

   private:
    bridge::SavedTensorScope saved_tensors_;
    RecordDraws draws_;
    bridge::OperatorScope<bridge::RandomOperators> random_operators_;
    std::optional<bridge::OperatorScope<>> kept_;
  };
  /// Call after the unit's forward.
  void end_unit();
  /// Adds an argument or result of a unit: it need not be saved when another unit of this frame
  /// takes it as an argument.
  void add_known(const at::Tensor& t) { known_.add(t); }
  /// Call if no further unit will join the frame.
  void complete() { known_.clear(); }
  /// Returns true for a result of the last unit that was not changed in place since.
  bool is_last_result(const at::Tensor& t) const;
  std::size_t unit_count() const { return units_.size(); }
  /// Returns true once a backward needed a tensor of this frame: no unit may join it any more.
  bool backward_started() const { return backward_started_; }

  IKEBANA_INLINE std::unique_ptr<torch::autograd::SavedVariableHooks> make() override;

 protected:
  /// Recomputes to the end and returns what autograd saves; no value if other random numbers were
  /// drawn than in forward.
  using Rehearse = c10::function_ref<std::optional<Tensors>(Tensors& results)>;
  /// One run of all units, whose operators `mode` sees, unless it is null.
  using Run = c10::function_ref<void(bridge::OperatorMode* mode)>;

  const Slots& saved() const { return slots_; }
  const std::string& name() const;

 private:
  /// Returns the mode that sees the operators of a unit's forward, in forward, or null.
  IKEBANA_INLINE virtual bridge::OperatorMode* record();
  /// Calls `run` once, in a recompute.
  IKEBANA_INLINE virtual void replay(CompareDraws& draws, Run run);
  IKEBANA_INLINE virtual void forward_ended();
  /// No other backward will recompute.
  IKEBANA_INLINE virtual void clear();
  /// Returns true if a recompute goes on after it has filled all slots.
  IKEBANA_INLINE virtual bool goes_on();
  IKEBANA_INLINE virtual void before_recompute(const std::vector<Tensors>& inputs,
                                               Rehearse rehearse);
  IKEBANA_INLINE virtual void after_recompute();

  static constexpr auto undefined =
      static_cast<std::size_t>(-1);  // the index for an argument without a tensor

  struct UnitCall {
    std::shared_ptr<const RecomputedUnit> unit;
    bridge::RngAutocastState rng_autocast;
    UnitState state;
    at::Tensor saved_inputs;                    // holder made by SaveInputs
    std::vector<std::size_t> argument_indices;  // into the frame's known tensors, or `undefined`
    Recompute recompute;
    bridge::RngSet rng_moved = {};  // both, until the forward has ended
    std::vector<RandomCall> draws = {};
  };
  struct SlotHooks;
  struct FillSlots;

  at::Tensor unpack(std::size_t slot);
  void recompute(int task);
  /// Runs the units and returns what autograd saves. Returns no value if the run must be repeated,
  /// because other random numbers were drawn than in forward. A run to the end sets `results`.
  std::optional<Tensors> saved_by_units(const std::vector<Tensors>& inputs, bool last_attempt,
                                        Tensors* results = nullptr);
  void run_units(const std::vector<Tensors>& inputs, FillSlots& fill, Tensors* last_results);

  c10::Device device_;
  std::vector<UnitCall> units_;
  std::string joined_names_;      // the names of several units
  KnownTensors known_;            // inputs and results, in the order in which recompute has them
  std::size_t last_results_ = 0;  // index in known_ of the first result of the last unit
  Slots slots_;
  std::mutex mutex_;
  std::atomic<bool> backward_started_ = false;
};

/// Makes a frame that keeps nothing but the inputs of its units. Returns null if gradients are
/// disabled.
std::shared_ptr<Frame> full_frame(c10::Device device);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/frame.ipp>
#include <ikebana/checkpoint/frame/impl/recompute.ipp>
#endif
