#pragma once
// Defines the arguments of hooks: gradients, master weights, and the part of a step.
#include <ikebana/batch/position.hpp>
#include <ikebana/detail/finite_checks.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/slice.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana {

class RankGroup;  // ranks/rank_group.hpp

/// The phases of a step, by which its time is measured.
enum class Phase {
  Data,      ///< the batch is moved to the device and cut into microbatches
  Forward,   ///< the loss of a microbatch
  Backward,  ///< its gradients
  Optimizer  ///< all that follows the last backward
};
using Tensors = std::vector<at::Tensor>;     ///< tensors, mostly one for each parameter
using DTypes = std::vector<at::ScalarType>;  ///< dtypes, one for each parameter

namespace detail {
const char* phase_name(Phase phase);
/// Returns the tensors without gradients, which share their memory.
Tensors detached(const Tensors& tensors);
}  // namespace detail

/// The tensors from which the backward pass of one microbatch starts.
struct Roots {
  Tensors sums;   ///< the loss's sums
  Tensors seeds;  ///< the gradient that each of them starts with

  void clear() noexcept { sums.clear(), seeds.clear(); }  ///< frees the graph
};

/// Returns the elements of a gradient; if it is sparse, the elements of its rows. Shares the
/// gradient's memory.
at::Tensor elements_of(const at::Tensor& gradient);

/// Stores the state of optimizers, and averages of the weights. Step counts, which are single
/// numbers, stay where their master is.
struct StateStorage {
  virtual ~StateStorage() = default;
  /// Is called when the trainer is made. A tensor like `like` will be placed at the first step, if
  /// its master gets a gradient. May take the space now, and throw if there is not enough.
  virtual void reserve_state(const at::Tensor& /*like*/) {}
  /// Allocates memory for a new tensor of state. Returns a tensor with the values, shape, strides,
  /// dtype and device of `state`, which may outlive this storage. Is called before an update, and
  /// while a state that is to be loaded is checked. May throw.
  virtual at::Tensor place_state(const at::Tensor& state) = 0;
  /// Returns how many bytes of state an update may use at once. 0 means all, without windows. Is
  /// called before each update. Windows are of consecutive parameters, and a parameter is never
  /// cut: one that has more state is alone in its window.
  virtual std::int64_t window_bytes() const { return 0; }
  /// Begins the use of these tensors by an update that is not known to be rejected. Is called once
  /// for each update, and once more if that update is undone. Outside of windows, memory must be
  /// readable, because saving a state reads it.
  virtual void begin_window(const Tensors& /*state*/) noexcept {}
  virtual void end_window(const Tensors& /*state*/) noexcept {}  ///< ends that use
  /// Begins the use of master weights or their gradients by code that goes through all of them.
  virtual void begin_use(const Tensors&, bool /*writes*/) noexcept {}
  virtual void end_use(const Tensors&) noexcept {}  ///< ends that use
};

/// Receives the gradients of master weights that come from other ranks.
struct GradientStorage {
  virtual ~GradientStorage() = default;
  /// Moves the gradient of master `k`, in its dtype, to where that master is. Returns an undefined
  /// tensor if it is still on its way: `finish_gradients` then adds it to the master's gradient.
  /// May throw.
  virtual at::Tensor place_gradient(const at::Tensor& gradient, std::size_t k) = 0;
};

/// Calls `f` with all of `tensors`, or with windows of them, if the storage has windows.
void for_windows(StateStorage* storage, const Tensors& tensors, bool writes,
                 c10::function_ref<void(const Tensors&)> f);

namespace detail {
/// Facts about gradients that a step, its loss scale, its checks and its optimizer tell each other.
struct GradientProtocol {
  bool updated_in_backward = false;  ///< some masters have been updated; they may have no gradient
  bool loss_is_scaled = false;       ///< the loss scale handles values that are not finite
  at::Tensor overflow;  ///< one float, 1: under a loss scale, a gradient was not finite before a
                        ///< policy changed it; undefined: no policy has
  FiniteChecks finite;  ///< checks that `found_inf` does not include yet; it does before `prepare`,
                        ///< and before a user's own policy is called
  StateStorage* storage = nullptr;  ///< the storage of the masters
};
}  // namespace detail

/// Gradients of the master weights that got one; sparse ones are coalesced. Nothing is multiplied
/// into them: what they are still to be divided by (loss scale, late count, clipping) is collected
/// in `divisor`, and the update divides once.
struct StepGradients {
  std::vector<std::size_t> indices;  ///< the index of each of them among the trainer's master
                                     ///< weights
  Tensors values;                    ///< the gradients, in the order of `indices`
  at::Tensor divisor;                ///< one float, or double, on the device; undefined: 1
  at::Tensor norm;          ///< the norm of the true gradients before clipping; undefined: no
                            ///< mechanism asked for it
  at::Tensor squared_norm;  ///< the squared norm of the values, over all slices; undefined: it was
                            ///< not summed over ranks
  bool norm_is_current = false;  ///< no policy has changed the values since, but by clipping
  at::Tensor found_inf;          ///< one float, 1: skip the update; undefined: not asked for
  std::optional<BatchPosition> position;  ///< the position of the step's batch; no value: it is not
                                          ///< known
  detail::GradientProtocol protocol;      ///< for the library; a policy's author needs none of it

  /// Takes the gradients that the last backward left, and forgets everything else.
  void collect(const Tensors& masters);
  /// Returns a number that tells which masters have gradients, as for ranks that must update the
  /// same ones.
  std::uint64_t hash_of_indices() const noexcept;
  /// From now on the values are to be divided by `d` as well.
  void divide(const at::Tensor& d);
  /// Divides the values in place by what they are still to be divided by: then they are the true
  /// gradients.
  void apply_divisor();
  /// Calls `f` with all gradients, or with some at a time if a storage has windows.
  template <class F>
  void in_windows(bool writes, const F& f) const {
    for_windows(protocol.storage, values, writes, f);
  }
  /// Returns the dtype of a divisor that loses nothing: Double if a gradient is Double, else Float.
  at::ScalarType divisor_dtype() const;
  /// Skips the update if `flag` (one float) is not 0.
  void reject(const at::Tensor& flag);
  /// Returns true if `protocol.finite` can check this number: it is on the device of the gradients,
  /// and the host cannot read it. A mechanism that records a step lists each flag by itself.
  bool checks_later(const at::Tensor& number) const;
  /// Returns a number of the device that computes on the device of the gradients and the update. It
  /// waits for the number if they are on the host. The update would wait for its values anyway.
  at::Tensor where_values_are(const at::Tensor& number) const;
};

/// Writes an update to BF16 master weights: it is computed in FP32, one of them at a time.
struct UpdateRounding {
  virtual ~UpdateRounding() = default;
  /// Before the update: the largest master has `max_elements`. May throw.
  virtual void prepare_rounding(const at::TensorOptions& exact, std::int64_t max_elements) = 0;
  /// Writes `exact` to the master of that index. Both are one-dimensional, in memory order.
  virtual void write(const at::Tensor& master, const at::Tensor& exact,
                     std::size_t index) noexcept = 0;
};

namespace detail {
/// Returns true if the update of the master weight `p` is rounded: only BF16 weights are.
bool is_rounded(const UpdateRounding* rounding, const at::Tensor& p);
/// Returns all elements of a tensor without gaps, in one dimension.
at::Tensor in_memory_order(const at::Tensor& t);
}  // namespace detail

/// The master weights, as an update sees them.
struct Masters {
  std::vector<std::string> names;      ///< the names of the parameters, as in `named_parameters`
  Tensors values;                      ///< leaves; the optimizer updates them in place
  UpdateRounding* rounding = nullptr;  ///< null: updates are computed and written in their dtype
  std::size_t first = 0;               ///< index of the first of these among the trainer's
  StateStorage* storage = nullptr;     ///< null: optimizers make state where its master is
  GradientStorage* gradient_storage = nullptr;  ///< null: gradients are copied to the device of
                                                ///< their master
  std::vector<Slice> slices = {};               ///< the slice of each; empty: all are whole
  RankGroup* ranks = nullptr;                   ///< the ranks among which masters are cut; null:
                                                ///< all are whole
  std::vector<std::vector<std::string>> other_names = {};  ///< the other names of each, if it is
                                                           ///< tied; empty: no parameter is tied

  /// Adds one, with further names of it if it is a tied weight.
  void add(std::string name, at::Tensor value, Slice slice, std::vector<std::string> others = {});
  /// Adds master `i` of others.
  void add(const Masters& others, std::size_t i);
  /// Returns further names of master `i`.
  std::vector<std::string> others_of(std::size_t i) const;
  /// Returns master `i` alone.
  Masters only(std::size_t i) const;
  /// Returns true if master `i` is a whole parameter.
  bool is_whole(std::size_t i) const { return slices.empty() || slices[i].is_whole(); }
  /// Returns what a rule is asked about: the master itself, or, if it is a slice, a tensor of the
  /// whole parameter's shape and dtype that has no values; reading one is an error.
  at::Tensor whole(std::size_t i) const;

 private:
  void add_names(std::vector<std::string> others);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/hooks/impl/arguments.ipp>
#endif
