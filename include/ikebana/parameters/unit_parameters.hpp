#pragma once
// One unit's parameters: the master weights, the gathered parameters, and the autograd node between
// them.
#include <deque>
#include <functional>
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/gradient_hooks.hpp>

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
  Tensors values;              ///< the masters without gradients: they share their memory
  int users = 0;               ///< how many need the gathered parameters now
  std::size_t generation = 0;  ///< grows when a step is undone, which voids older users
  bool was_run = false;        ///< by this step's loss
  bool is_stale = false;       ///< masters have new values that are not gathered yet

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
  void set_masters(const Tensors& given) {
    empty_ = empties_like(unit->parameters);
    bool one_per_parameter = given.size() == unit->parameters.size();
    for (std::size_t i = 0; i < given.size(); ++i) {
      bool trained = one_per_parameter ? unit->parameters[i].requires_grad() : requires_grad();
      masters.push_back(given[i].detach().clone().set_requires_grad(trained));
    }
    values = detached(masters);
    for (const auto& p : unit->parameters) {
      seen_.push_back({p.requires_grad(), version(p), p.sizes().vec()});
      detail::make_hook_list(p);
    }
    check_hooks();
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
        if (detail::recording())
          throw BadValue("`" + unit->name +
                         "`: its gathered parameters move to other memory, which a recorded step "
                         "cannot repeat. Record a recipe whose policies keep them in place.");
        to->set_nbytes(from->nbytes());
        to->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, from->device())));
        from->set_nbytes(0);
      }
    }
    show_gathered();
  }
  void show_gathered() {
    set_data(gathered_);
    is_exposed_ = false;
  }
  /// Called when new values arrived, so that backward refuses a graph that saved the old ones.
  void bump_versions() {
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      parameter(i).unsafeGetTensorImpl()->bump_version();
      seen_[i].version = version(parameter(i));
    }
  }
  /// Lets the model see `full` parameters, of whatever dtype, until the next `set_gathered`.
  void expose(const Tensors& full) {
    is_exposed_ = true;
    set_data(full);
  }
  void release() noexcept {
    for (auto& t : gathered_) {
      auto* storage = t.storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
      storage->set_nbytes(0);
    }
    set_data(empty_);
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
    is_attached_ = true;
  }
  /// Makes the parameters leaves again: what uses them outside of a forward is then no part of the
  /// graph of an earlier one.
  void detach_from_graph() noexcept {
    if (!std::exchange(is_attached_, false)) return;
    for (const auto& p : unit->parameters) torch::autograd::impl::set_gradient_edge(p, {});
  }
  /// Makes the parameters plain leaves with these values.
  void restore(const Tensors& full) noexcept {
    expose(full);
    masters.clear(), values.clear();
  }

  /// Throws BadModel where something was done to a parameter that its master weight does not see.
  void check() {
    if (is_stale || is_exposed_) return;  // the parameters are about to be written by the trainer
    const Tensors& shown = users > 0 ? gathered_ : empty_;
    for (std::size_t i = 0; i < seen_.size(); ++i)
      if (version(parameter(i)) != seen_[i].version || !parameter(i).is_alias_of(shown[i]))
        refuse(i, "was changed, and its master weight was not, so the next update discards that",
               "Change it within Trainer::with_full_weights, or before the trainer is made.");
    check_hooks();
  }
  /// The same of requires_grad and of hooks. From now on a parameter's gradient hooks are called
  /// with the gradient of its master weight.
  void check_hooks() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const at::Tensor& p = parameter(i);
      if (!p.requires_grad()) continue;
      if (!seen_[i].requires_grad)
        refuse(i, "requires a gradient now and did not when the trainer was made",
               "Make a new trainer after a change of requires_grad.");
      if (detail::has_accumulation_hook(p))
        refuse(i, "has a hook that runs after its gradient was accumulated, which it never is",
               "Gradients are accumulated in master weights: register a hook by register_hook.");
      if (detail::has_gradient_hooks(p) && !seen_[i].forwards_hooks) forward_hooks(i);
    }
  }

 private:
  /// What a parameter was like when it was last looked at.
  struct Seen {
    bool requires_grad;
    std::uint32_t version;
    std::vector<std::int64_t> sizes;
    bool forwards_hooks = false;
  };

  static std::uint32_t version(const at::Tensor& t) {
    const auto& counter = t.unsafeGetTensorImpl()->version_counter();
    return counter.enabled() ? counter.current_version() : 0;
  }
  [[noreturn]] void refuse(std::size_t i, const char* what, const char* cure) const {
    throw BadModel("trainer: `" + unit->names[i] + "` " + what +
                   ", under a policy that stores master weights apart. " + cure);
  }
  void forward_hooks(std::size_t i) {
    if (masters.size() != unit->parameters.size() || masters[i].sizes() != seen_[i].sizes)
      refuse(i, "has a gradient hook, and its master weight has another shape", "Remove the hook.");
    detail::forward_gradient_hooks(parameter(i), masters[i]);
    seen_[i].forwards_hooks = true;
  }
  const at::Tensor& parameter(std::size_t i) const { return unit->parameters[i]; }
  void set_data(const Tensors& given) const {
    for (std::size_t i = 0; i < given.size(); ++i) parameter(i).set_data(given[i]);
  }
  static Tensors empties_like(const Tensors& tensors) {
    Tensors empties;
    for (const auto& t : tensors)
      empties.push_back(at::empty({0}, t.options().requires_grad(false)));
    return empties;
  }

  std::vector<Seen> seen_;  // of each parameter
  bool is_attached_ = false, is_exposed_ = false;
  Tensors gathered_;
  Tensors empty_;  // what released parameters are; made before, since releasing must not allocate
};

}  // namespace ikebana
