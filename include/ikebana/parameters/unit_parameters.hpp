#pragma once
// One unit's parameters: their masters, their working copies, and the autograd node between them.
#include <deque>
#include <functional>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Brings the gradients of a unit's working copies home: takes one a parameter, undefined where it
/// got none, and returns one a master.
using ReduceGradients = std::function<Tensors(Tensors)>;

namespace detail {

struct ReduceGradientsHolder : torch::CustomClassHolder {
  ReduceGradients home;
  explicit ReduceGradientsHolder(ReduceGradients h) : home(std::move(h)) {}
};

/// Masters in, working copies out; backwards, gradients of working copies in, of masters out. The
/// engine counts by itself when all gradients of a unit are there.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList masters, const Tensors* working,
                                                ReduceGradients home) {
    context->set_materialize_grads(false);
    context->saved_data["home"] =
        c10::IValue::make_capsule(c10::make_intrusive<ReduceGradientsHolder>(std::move(home)));
    context->saved_data["masters"] = static_cast<std::int64_t>(masters.size());
    torch::autograd::variable_list views;
    for (const auto& t : *working) views.push_back(t.detach());
    return views;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto capsule = context->saved_data["home"].toCapsule();
    auto& holder = static_cast<ReduceGradientsHolder&>(*capsule);
    Tensors home = holder.home(std::move(gradients));
    home.resize(static_cast<std::size_t>(context->saved_data["masters"].toInt()) + 2);
    return home;
  }
};

}  // namespace detail

/// A unit's parameters at rest. A working copy keeps one storage for life, so that what autograd
/// saved of it is valid again after the next gather: gathering puts memory into it, releasing takes
/// it out.
struct UnitParameters {
  const Unit* unit;
  Tensors masters;
  int users = 0;               ///< how many need the working copy now
  std::size_t generation = 0;  ///< grows when a step is undone: older holds are void

  explicit UnitParameters(const Unit& u) : unit(&u) {}

  static Tensors detached(const Tensors& tensors) {
    Tensors values;
    for (const auto& t : tensors) values.push_back(t.detach());
    return values;
  }
  /// Working copies that share no memory with the masters: what no mechanism made anew is copied.
  Tensors without_aliases(Tensors gathered) const {
    for (auto& t : gathered)
      for (const auto& master : masters)
        if (t.is_alias_of(master)) t = t.clone();
    return gathered;
  }
  /// Takes masters: one a parameter, or one for all of them. Parameters keep their values.
  void begin(Tensors full) {
    bool one_each = full.size() == unit->parameters.size();
    for (std::size_t i = 0; i < full.size(); ++i) {
      bool requires_grad = one_each ? unit->parameters[i].requires_grad() : this->requires_grad();
      masters.push_back(full[i].detach().clone().set_requires_grad(requires_grad));
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

  /// Makes `fresh` the working copies: the first time as they are, later by moving their memory in,
  /// or not at all where a mechanism wrote into the memory that is there.
  void set_gathered(Tensors fresh) {
    if (gathered_.empty()) {
      gathered_ = std::move(fresh);
    } else {
      std::set<c10::StorageImpl*> moved;
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
  /// New values arrived: a graph that saved the old ones must not go backward any more.
  void bump_versions() noexcept {
    for (std::size_t i = 0; i < gathered_.size(); ++i)
      parameter(i).unsafeGetTensorImpl()->bump_version();
  }
  /// Lets the model see `full` parameters, of whatever type; the next `set_gathered` ends that.
  void expose(const Tensors& full) {
    for (std::size_t i = 0; i < full.size(); ++i) parameter(i).set_data(full[i]);
  }
  void release() noexcept {
    for (auto& t : gathered_) {
      auto* storage = t.storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
      storage->set_nbytes(0);
    }
    for (std::size_t i = 0; i < unit->parameters.size(); ++i)
      parameter(i).set_data(at::empty({0}, parameter(i).options().requires_grad(false)));
  }
  /// Lets parameters get their history from the masters, through a node of this forward.
  void attach_to_graph(ReduceGradients home) {
    namespace ag = torch::autograd;
    auto views = detail::Gather::apply(at::TensorList(masters), &gathered_, std::move(home));
    for (std::size_t i = 0; i < views.size(); ++i)
      if (parameter(i).requires_grad())
        ag::impl::set_gradient_edge(parameter(i), ag::impl::gradient_edge(views[i]));
  }
  void restore_dtype(Tensors values) noexcept {
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameter(i).set_data(values[i]);
      torch::autograd::impl::set_gradient_edge(parameter(i), {});
    }
    masters.clear();
  }

 private:
  at::Tensor parameter(std::size_t i) const { return unit->parameters[i]; }

  Tensors gathered_;
};

}  // namespace ikebana
