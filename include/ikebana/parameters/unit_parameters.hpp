#pragma once
// One unit's parameters: the master weights, the gathered parameters, and the autograd node between
// them.
#include <deque>
#include <functional>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Reduces the gradients of a unit's gathered parameters: takes one per parameter, undefined where
/// it got none, and returns one per master.
using ReduceGradients = std::function<Tensors(Tensors)>;

namespace detail {

struct ReduceGradientsHolder : torch::CustomClassHolder {
  ReduceGradients reduce;
  explicit ReduceGradientsHolder(ReduceGradients r) : reduce(std::move(r)) {}
};

/// Forward: master weights in, gathered parameters out. Backward: gradients of gathered parameters
/// in, of master weights out. The engine itself counts when all gradients of a unit have arrived.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList masters, const Tensors* gathered,
                                                ReduceGradients reduce) {
    context->set_materialize_grads(false);
    context->saved_data["reduce"] =
        c10::IValue::make_capsule(c10::make_intrusive<ReduceGradientsHolder>(std::move(reduce)));
    context->saved_data["masters"] = static_cast<std::int64_t>(masters.size());
    torch::autograd::variable_list views;
    for (const auto& t : *gathered) views.push_back(t.detach());
    return views;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto capsule = context->saved_data["reduce"].toCapsule();
    auto& holder = static_cast<ReduceGradientsHolder&>(*capsule);
    Tensors reduced = holder.reduce(std::move(gradients));
    // One for each argument of forward: the last two are no tensors.
    reduced.resize(static_cast<std::size_t>(context->saved_data["masters"].toInt()) + 2);
    return reduced;
  }
};

}  // namespace detail

/// A unit's parameters while a trainer stores them. A gathered parameter keeps one storage for its
/// lifetime, so that what autograd saved of it is valid again after the next gather: gathering
/// moves memory into the storage, releasing takes it out.
struct UnitParameters {
  const Unit* unit;
  Tensors masters;
  int users = 0;               ///< how many need the gathered parameters now
  std::size_t generation = 0;  ///< grows when a step is undone, which voids older users

  explicit UnitParameters(const Unit& u) : unit(&u) {}

  static Tensors detached(const Tensors& tensors) {
    Tensors values;
    for (const auto& t : tensors) values.push_back(t.detach());
    return values;
  }
  /// Gathered parameters that share no memory with the master weights: what no mechanism copied is
  /// copied here.
  Tensors without_aliases(Tensors gathered) const {
    for (auto& t : gathered)
      for (const auto& master : masters)
        if (t.is_alias_of(master)) t = t.clone();
    return gathered;
  }
  /// Takes the master weights: one per parameter, or one for all. Parameters keep their values.
  void set_masters(Tensors values) {
    empty_ = empties_like(unit->parameters);
    bool one_per_parameter = values.size() == unit->parameters.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      bool trained = one_per_parameter ? unit->parameters[i].requires_grad() : requires_grad();
      masters.push_back(values[i].detach().clone().set_requires_grad(trained));
    }
  }
  std::string master_name(std::size_t i) const {
    if (masters.size() == unit->parameters.size()) return unit->names[i];
    return (unit->name.empty() ? std::string("root") : unit->name) + "#" + std::to_string(i);
  }
  bool requires_grad() const {
    for (const auto& p : unit->parameters)
      if (p.requires_grad()) return true;
    return false;
  }

  /// Makes `fresh` the gathered parameters: the first time as they are, later by moving their
  /// memory in, or not at all where a mechanism wrote into the memory that is there.
  void set_gathered(Tensors fresh) {
    if (gathered_.empty()) {
      empty_ = empties_like(fresh);
      gathered_ = std::move(fresh);
    } else {
      std::set<const void*> moved;
      for (std::size_t i = 0; i < gathered_.size(); ++i) {
        auto* to = gathered_[i].storage().unsafeGetStorageImpl();
        auto* from = fresh[i].storage().unsafeGetStorageImpl();
        if (from == to || !moved.insert(to).second) continue;
        to->set_nbytes(from->nbytes());
        to->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, from->device())));
        from->set_nbytes(0);
      }
    }
    for (std::size_t i = 0; i < gathered_.size(); ++i) parameter(i).set_data(gathered_[i]);
  }
  /// Called when new values arrived, so that backward refuses a graph that saved the old ones.
  void bump_versions() noexcept {
    for (std::size_t i = 0; i < gathered_.size(); ++i)
      parameter(i).unsafeGetTensorImpl()->bump_version();
  }
  /// Lets the model see `full` parameters, of whatever dtype, until the next `set_gathered`.
  void expose(const Tensors& full) {
    for (std::size_t i = 0; i < full.size(); ++i) parameter(i).set_data(full[i]);
  }
  void release() noexcept {
    for (auto& t : gathered_) {
      auto* storage = t.storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
      storage->set_nbytes(0);
    }
    for (std::size_t i = 0; i < empty_.size(); ++i) parameter(i).set_data(empty_[i]);
  }
  /// Connects the parameters to the master weights in the graph, by a node of this forward.
  template <class Reduce>
  void attach_to_graph(Reduce&& reduce) {
    namespace ag = torch::autograd;
    auto views = detail::Gather::apply(at::TensorList(masters), &gathered_,
                                       ReduceGradients(std::forward<Reduce>(reduce)));
    for (std::size_t i = 0; i < views.size(); ++i)
      if (parameter(i).requires_grad())
        ag::impl::set_gradient_edge(parameter(i), ag::impl::gradient_edge(views[i]));
  }
  /// Makes the parameters plain leaves again, with these values.
  void restore(Tensors values) noexcept {
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameter(i).set_data(values[i]);
      torch::autograd::impl::set_gradient_edge(parameter(i), {});
    }
    masters.clear();
  }

 private:
  at::Tensor parameter(std::size_t i) const { return unit->parameters[i]; }
  static Tensors empties_like(const Tensors& tensors) {
    Tensors empties;
    for (const auto& t : tensors)
      empties.push_back(at::empty({0}, t.options().requires_grad(false)));
    return empties;
  }

  Tensors gathered_;
  Tensors empty_;  // what released parameters are; made before, since releasing must not allocate
};

}  // namespace ikebana
