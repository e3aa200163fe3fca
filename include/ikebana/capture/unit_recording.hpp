#pragma once
// Records one call of a unit: the operators of its forward, and of its part of a backward, which
// the unit's own graph computes apart from the rest.
#include <ikebana/bridge/nodes.hpp>
#include <ikebana/capture/guards.hpp>
#include <ikebana/capture/recorder.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Throws BadModel that the unit cannot be recorded if `throws`, and warns otherwise.
void refuse_unit(const std::string& unit, const std::string& problems, bool throws);

/// The parameters and buffers of a unit's module, which its forward and backward read.
struct UnitTensors {
  Tensors parameters, buffers;
  std::vector<std::string> parameter_names, buffer_names;
  explicit UnitTensors(const torch::nn::Module& module);

  std::size_t size() const { return parameters.size() + buffers.size(); }
  /// Returns a parameter, or a buffer, which are counted after them.
  const at::Tensor& operator[](std::size_t i) const {
    return i < parameters.size() ? parameters[i] : buffers[i - parameters.size()];
  }
};

/// One call of a unit, as it was recorded.
struct UnitRecording {
  Recording operators = {};
  std::vector<RecordedTensor> arguments = {}, results = {}, seeds = {}, gradients = {};
  std::vector<bool> requires_grad = {};  ///< true for each result that has a gradient
  /// For each result, the first one that is the same tensor for the host. Others may share its
  /// memory, such as `detach()` of it.
  std::vector<std::size_t> first_results = {};
  /// Where each gradient goes: to an argument, or to a parameter, which are counted after them. A
  /// target that the unit uses several times has a gradient for each use: autograd adds them up in
  /// the order in which it would without Capture.
  std::vector<std::size_t> targets = {};
  /// For each of these, whether forward used the parameter before its first cast: autograd adds
  /// such a gradient after that of the cast.
  std::vector<bool> before_cast = {};
  BatchForm result_form = {}, seed_form = {};
};
/// Returns what differs between two recordings of one form, as a sentence; empty if nothing does.
std::string difference(const UnitRecording& a, const UnitRecording& b);

/// Computes the backward of one call of a unit: takes a gradient for each result that has one, and
/// returns one for each target. After the last one the call is freed.
struct UnitBackwardCall {
  virtual ~UnitBackwardCall() = default;
  virtual Tensors backward(Tensors seeds, bool is_last) = 0;
};
/// Where the gradients of one call go. Autograd runs the node of the call before the casts of its
/// weights, which were made before it, and adds up gradients as they come. The gradients that a
/// weight would get after the gradient of its cast therefore pass through another node, which runs
/// after the casts.
class UnitEdges {
 public:
  /// Must be made before the casts are.
  UnitEdges() : number_(bridge::take_node_number()) {}

  /// Adds the edge that leads to `target`.
  void add(torch::autograd::Edge edge, const at::Tensor& target, bool is_before_cast);
  std::vector<torch::autograd::Edge> all = {};

 private:
  std::uint64_t number_;
  bridge::NodePointer later_ = {};
};
/// Makes the node of one call: results become its results, and its edges lead `outside`. A result
/// that stands in the list twice is one tensor.
void connect(const std::string& unit, std::shared_ptr<UnitBackwardCall> call, UnitEdges outside,
             const Tensors& results);
/// Returns true if a tensor has a gradient that goes on to what made it.
inline bool has_gradient(const at::Tensor& t) { return t.defined() && t.requires_grad(); }
/// Returns the index of the first of some tensors that is the `i`-th.
std::size_t first_same(const Tensors& all, std::size_t i);

/// The tensors to which gradients of a call may go.
struct UnitTargets {
  Tensors tensors;
  /// For each of them the number of the node before which it was not cast; 0 if it is never cast.
  std::vector<std::uint64_t> first_cast;
};

/// A call of a unit while it is recorded.
class RecordedUnit {
 public:
  RecordedUnit(std::string unit, const UnitRecording* before)
      : recorder(at::kCPU, before == nullptr ? nullptr : &before->operators),
        unit_(std::move(unit)) {}

  Recorder recorder;
  UnitRecording recording;

  /// Lets the recorder read the tensors of the module.
  void allow(const UnitTensors& tensors);
  /// Adds an argument.
  void add_argument(const at::Tensor& t, const std::string& name);
  /// Records the forward. Returns its results, and their graph is the unit's own.
  Tensors forward(c10::function_ref<Tensors(Recorder&)> compute);
  /// Returns true if the forward does more than making views.
  bool computes() const;
  /// Takes the results, and cuts their graph from what was there before. Adds the edges that led
  /// there to `outside`, and a problem for results and gradients that a replay could not pass on.
  void end_forward(const Tensors& results, const UnitTargets& targets, UnitEdges& outside);
  bool has_backward() const { return !roots_.empty(); }
  /// Records the backward, and returns the gradients of the targets.
  Tensors backward(const Tensors& seeds);
  /// Computes the backward once more.
  Tensors backward_again(const Tensors& seeds) const;

 private:
  void take_results(const Tensors& results);
  void cut(const UnitTargets& targets, UnitEdges& outside);
  void add_seed(const at::Tensor& seed);
  bool is_with_seeds(const RecordedTensor& t) const;

  std::string unit_;
  std::uint64_t begin_ = 0, end_ = 0;  // numbers of nodes that the forward made
  std::vector<torch::autograd::Edge> roots_, ends_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/unit_recording.ipp>
#endif
