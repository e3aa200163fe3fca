#pragma once
// One unit's parameters: the master weights, the gathered parameters, and the autograd nodes
// between them.
#include <deque>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/parameters/gather_node.hpp>
#include <ikebana/parameters/gradient_hooks.hpp>
#include <set>

namespace ikebana {

/// A unit's parameters while a trainer stores them. A gathered parameter keeps one storage for its
/// lifetime, so that what autograd saved of it is valid again after the next gather: gathering
/// moves memory into the storage, releasing takes it out. A unit is away, or arriving, or here.
struct UnitParameters {
  const Unit* unit;
  Tensors masters;
  std::vector<Slice> slices;   ///< which part of its parameter each master is
  Tensors values;              ///< the masters without gradients: they share their memory
  Tensors arriving;            ///< what is being gathered, and not needed yet
  int users = 0;               ///< how many need the gathered parameters now; 0: they are not here
  std::size_t generation = 0;  ///< grows when a step is undone, which voids older users
  bool was_run = false;        ///< by this step's loss
  bool is_stale = false;       ///< masters have new values; what is gathered has the former ones
  bool masters_in_place = false;  ///< masters may be rows of what is gathered

  explicit UnitParameters(const Unit& u) : unit(&u) {}
  bool is_arriving() const { return !arriving.empty(); }

  /// Gathered parameters that share no memory with the master weights: what no mechanism copied is
  /// copied here.
  Tensors without_aliases(Tensors gathered) const {
    if (masters_in_place) return gathered;
    for (auto& t : gathered)
      for (const auto& master : masters)
        if (detail::same_storage(t, master)) t = t.clone();
    return gathered;
  }
  /// Takes the master weights as they are, one per parameter, of the rows `rows(i, count)`.
  /// Parameters keep their values. Throws BadModel for one of another shape.
  template <class Rows>
  void set_masters(const Tensors& given, const Rows& rows) {
    if (given.size() != unit->parameters.size())
      throw BadModel("trainer: a policy made " + std::to_string(given.size()) +
                     " master weights of the " + std::to_string(unit->parameters.size()) +
                     " parameters of unit `" + unit->name +
                     "`. Let `to_masters` return one for each; a part of one is some of its rows.");
    away_ = away_like(unit->parameters);
    for (std::size_t i = 0; i < given.size(); ++i) {
      const at::Tensor& p = parameter(i);
      Slice slice = detail::whole_slice(p, unit->index);
      slice.rows = rows(i, slice.rows.count);
      check_shape(i, given[i], slice);
      slices.push_back(std::move(slice));
      masters.push_back(given[i].variable_data().set_requires_grad(p.requires_grad()));
    }
    values = detail::detached(masters);
    for (const auto& p : unit->parameters) {
      seen_.push_back({p.requires_grad(), version(p), p.sizes().vec()});
      detail::make_hook_list(p);
    }
    check_hooks();
  }
  bool requires_grad() const {
    for (const auto& p : unit->parameters)
      if (p.requires_grad()) return true;
    return false;
  }

  /// Makes `fresh` the gathered parameters: the first time as they are, later by moving their
  /// memory in, or not at all where a mechanism wrote into the memory that is there.
  void set_gathered(Tensors fresh) {
    fresh = without_aliases(std::move(fresh));
    if (gathered_.empty()) {
      away_ = away_like(fresh);
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
  /// Lets the model see nothing of gathered parameters, which stay in memory.
  void hide() noexcept { set_data(away_); }
  void release() noexcept {
    is_stale = is_exposed_ = false;
    for (auto& t : gathered_) {
      auto* storage = t.storage().unsafeGetStorageImpl();
      storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
      storage->set_nbytes(0);
    }
    set_data(away_);
  }
  /// Connects the parameters to the master weights in the graph, by the node of these edges.
  void attach_to_graph(const std::vector<torch::autograd::Edge>& edges) {
    for (std::size_t i = 0; i < edges.size(); ++i)
      if (parameter(i).requires_grad())
        torch::autograd::impl::set_gradient_edge(parameter(i), edges[i]);
    is_attached_ = true;
  }
  /// A node of this forward, from the gathered parameters to the master weights.
  std::vector<torch::autograd::Edge> new_node(ReduceGradients reduce) const {
    return detail::gather_node(masters, gathered_, std::move(reduce));
  }
  /// Makes the parameters leaves again: what uses them outside of a forward is then no part of the
  /// graph of an earlier one.
  void detach_from_graph() noexcept {
    if (!std::exchange(is_attached_, false)) return;
    for (const auto& p : unit->parameters) torch::autograd::impl::set_gradient_edge(p, {});
  }
  /// Makes the parameters plain leaves with these values; of none, with what they show.
  void restore(const Tensors& full) noexcept {
    if (!full.empty()) expose(full);
    masters.clear(), values.clear();
  }
  /// True where the model wrote to what it was shown since `note_versions`, or replaced it.
  bool was_written(std::size_t i) const {
    return version(parameter(i)) != seen_[i].version || memory(parameter(i)) != seen_[i].memory;
  }
  bool was_written() const {
    for (std::size_t i = 0; i < seen_.size(); ++i)
      if (was_written(i)) return true;
    return false;
  }
  void note_versions() {
    for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i].version = version(parameter(i));
  }

  /// Throws BadModel where something was done to a parameter that its master weight does not see.
  void check() {
    if (is_stale || is_exposed_) return;  // the parameters are about to be written by the trainer
    const Tensors& shown = users > 0 ? gathered_ : away_;
    for (std::size_t i = 0; i < seen_.size(); ++i)
      if (version(parameter(i)) != seen_[i].version ||
          !detail::same_storage(parameter(i), shown[i]))
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
    const void* memory = nullptr;  // that the trainer gave to it last
  };

  static std::uint32_t version(const at::Tensor& t) {
    const auto& counter = t.unsafeGetTensorImpl()->version_counter();
    return counter.enabled() ? counter.current_version() : 0;
  }
  [[noreturn]] void refuse(std::size_t i, const char* what, const char* cure) const {
    throw BadModel("trainer: `" + unit->names[i] + "` " + what +
                   ", under a policy that stores master weights apart. " + cure);
  }
  /// A master has the parameter's shape, with the rows of its slice.
  void check_shape(std::size_t i, const at::Tensor& master, const Slice& slice) const {
    std::vector<std::int64_t> expected = slice.sizes;
    if (!expected.empty()) expected[0] = slice.rows.count;
    if (master.sizes() == expected) return;
    throw BadModel("trainer: a policy made a master weight of shape " + c10::str(master.sizes()) +
                   " of `" + unit->names[i] + "`; it must have the shape " +
                   c10::str(at::IntArrayRef(expected)) +
                   ", since parameters are cut by rows alone.");
  }
  void forward_hooks(std::size_t i) {
    if (!slices[i].is_whole())
      refuse(i, "has a gradient hook, and its master weight is a slice", "Remove the hook.");
    detail::forward_gradient_hooks(parameter(i), masters[i]);
    seen_[i].forwards_hooks = true;
  }
  const at::Tensor& parameter(std::size_t i) const { return unit->parameters[i]; }
  void set_data(const Tensors& given) {
    for (std::size_t i = 0; i < given.size(); ++i) {
      parameter(i).set_data(given[i]);
      if (i < seen_.size()) seen_[i].memory = memory(parameter(i));
    }
  }
  /// Of what is away there is none: its storage, then.
  static const void* memory(const at::Tensor& t) {
    if (detail::is_away(t)) return t.storage().unsafeGetStorageImpl();
    return t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
  }
  Tensors away_like(const Tensors& tensors) const {
    Tensors away;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      away.push_back(detail::away_tensor(tensors[i], unit->names[i]));
    return away;
  }

  std::vector<Seen> seen_;  // of each parameter
  bool is_attached_ = false, is_exposed_ = false;
  Tensors gathered_;
  Tensors away_;  // what released parameters are; made before, since releasing must not allocate
};

}  // namespace ikebana
