#pragma once
// The parts of a model that are measured: its units, or, if it declares none, its modules.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/observe/unit_summary.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

/// The names of the parts, the part around each, and their parameters.
class MeasuredModules {
 public:
  /// Takes the units, or all modules if the model is the only unit and `by_module` is true.
  MeasuredModules(const UnitTable& table, bool by_module);

  std::size_t size() const { return parts_.size(); }
  bool are_modules() const { return !module_of_.empty(); }
  const UnitTimes& part(std::size_t i) const { return parts_[i]; }
  /// Returns the module that has this tensor as a parameter or a buffer, or no value.
  std::optional<std::size_t> owner(const at::Tensor& t) const;

 private:
  void add_modules(torch::nn::Module& root);

  std::vector<UnitTimes> parts_;
  std::unordered_map<const c10::TensorImpl*, std::size_t> module_of_;
};

/// Follows the operators of a step. A module of LibTorch has no hook around its forward, so an
/// operator belongs to the module whose parameter or buffer it is given, or what was computed of
/// these alone, such as a cast. One that is given none belongs to the module around the one that
/// computed last: an activation within a Sequential belongs to the Sequential. In backward an
/// operator belongs to the module whose operator made the node.
class ModuleFollower : bridge::OperatorMode {
 protected:
  /// The direction in which the model computes now, if it does.
  enum class Direction { Neither, Forward, Backward };

  explicit ModuleFollower(const MeasuredModules& modules) : modules_(modules), scope_(*this) {}
  ~ModuleFollower() = default;
  virtual Direction direction() const = 0;
  /// Computes the call, which belongs to a module.
  virtual void compute(bridge::OperatorCall& call, std::size_t module, Direction direction) = 0;

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  /// A node of autograd, and the module whose operator made it.
  struct Node {
    std::uint64_t number;
    std::size_t module;
  };
  /// Memory of a module's parameters, or of what was computed of these alone.
  struct Derived {
    WeakStorage memory;
    std::size_t module;
  };

  IKEBANA_INLINE void call(bridge::OperatorCall& call) final;
  void call_in_forward(bridge::OperatorCall& call);
  /// Returns the module that has this tensor, or of whose tensors it was computed, or no value.
  std::optional<std::size_t> owner(const at::Tensor& t) const;
  /// Returns the module whose operator has made the node that computes. A node that no operator
  /// made, as one of a function of a user's own, belongs to the module around the one that computed
  /// before it.
  std::size_t module_of_node() const;

  const MeasuredModules& modules_;
  std::size_t last_ = 0;  // the module that computed last
  std::vector<Node> nodes_;
  std::unordered_map<const c10::StorageImpl*, Derived> derived_;
  bridge::OperatorScope<> scope_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/measured_modules.ipp>
#endif
