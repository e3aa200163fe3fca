#pragma once
// One unit's parameters: the master weights, the gathered parameters, the autograd nodes between
// them, and the user's gradient hooks, which are called with the gradient of the master weight.
#include <functional>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <limits>

namespace ikebana {

/// Reduces the gradients of a unit's gathered parameters: takes one per parameter, undefined if it
/// got no gradient, and returns one per master.
using ReduceGradients = std::function<Tensors(Tensors)>;

namespace detail {

struct ReduceGradientsHolder : torch::CustomClassHolder {
  ReduceGradients reduce;
  explicit ReduceGradientsHolder(ReduceGradients r) : reduce(std::move(r)) {}
};

/// The autograd function between master weights and gathered parameters. Forward takes master
/// weights and returns gathered parameters; backward takes gradients of gathered parameters and
/// returns gradients of master weights. The engine itself waits until all gradients of a unit have
/// arrived.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList masters, const Tensors* gathered,
                                                ReduceGradients reduce);
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients);
};

/// Makes a node whose backward takes the gradients of gathered parameters, and returns its edge for
/// each parameter.
std::vector<torch::autograd::Edge> gather_node(const Tensors& masters, const Tensors& gathered,
                                               ReduceGradients reduce);
/// Lets backward call a node that was made before the forward as soon as its gradients are there.
template <class Node>
void call_early(Node& node) {
  if constexpr (requires { node.set_sequence_nr(0); })
    node.set_sequence_nr(std::numeric_limits<std::uint64_t>::max());
}

/// A hook on a master weight: passes the gradient to the hooks that its parameter has by then.
struct ForwardGradientHooks : torch::autograd::FunctionPreHook {
  at::Tensor parameter;
  explicit ForwardGradientHooks(at::Tensor p) : parameter(std::move(p)) {}

  IKEBANA_INLINE torch::autograd::variable_list operator()(
      const torch::autograd::variable_list& gradients) override;
};

/// Returns true if a parameter has hooks of `register_hook`.
bool has_gradient_hooks(const at::Tensor& parameter);
/// Returns true if a parameter has a hook that is called after its gradient was accumulated.
bool has_accumulation_hook(const at::Tensor& parameter);
/// Makes the list that `register_hook` adds to, while the parameter is a leaf: a list that is made
/// in the middle of a forward would belong to the node of that forward as well.
void make_hook_list(const at::Tensor& parameter);
/// From now on calls the hooks of a parameter with the gradient of its master weight, before it is
/// accumulated: once per backward pass, as for a leaf.
void forward_gradient_hooks(const at::Tensor& parameter, const at::Tensor& master);

}  // namespace detail

/// A unit's parameters while a trainer stores them. A gathered parameter keeps one storage for its
/// lifetime, so that what autograd saved of it is valid again after the next gather: gathering
/// moves memory into the storage, releasing takes it out. A unit is away, or arriving, or here.
struct UnitParameters {
  const Unit* unit;
  Tensors masters;
  std::vector<Slice> slices;   ///< the part of its parameter that each master is
  Tensors values;              ///< the masters without gradients: they share their memory
  Tensors arriving;            ///< tensors that are being gathered, and not needed yet
  int users = 0;               ///< the number of users that need the gathered parameters now; 0:
                               ///< they are not here
  std::size_t generation = 0;  ///< grows when a step is undone, which voids older users
  bool was_run = false;        ///< whether this step's loss ran it
  bool is_stale = false;  ///< masters have new values; gathered parameters have the former ones
  bool masters_in_place = false;  ///< masters may be rows of gathered parameters

  explicit UnitParameters(const Unit& u) : unit(&u) {}
  bool is_arriving() const { return !arriving.empty(); }

  /// Returns gathered parameters that share no memory with the master weights. For this, it copies
  /// the parameters that no mechanism copied.
  Tensors without_aliases(Tensors gathered) const;
  /// Takes the master weights as they are, one per parameter, of the rows `rows(i, count)`.
  /// Parameters keep their values. Throws BadModel for a master of another shape.
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
  bool requires_grad() const;

  /// Makes `fresh` the gathered parameters: the first time as they are, later by moving their
  /// memory in, or not at all if a mechanism wrote into the memory that is there.
  void set_gathered(Tensors fresh);
  void show_gathered();
  /// Is called when new values arrived, so that backward refuses a graph that saved the old ones.
  void bump_versions();
  /// Lets the model see `full` parameters, of whatever dtype, until the next `set_gathered`.
  void expose(const Tensors& full);
  /// Lets the model see nothing of gathered parameters, which stay in memory.
  void hide() noexcept { set_data(away_); }
  void release() noexcept;
  /// Connects the parameters to the master weights in the graph, by the node of these edges.
  void attach_to_graph(const std::vector<torch::autograd::Edge>& edges);
  /// Returns a node of this forward, from the gathered parameters to the master weights.
  std::vector<torch::autograd::Edge> new_node(ReduceGradients reduce) const;
  /// Makes the parameters leaves again, so that a use outside of a forward is no part of the graph
  /// of an earlier forward.
  void detach_from_graph() noexcept;
  /// Makes the parameters plain leaves with these values; with what they show, if `full` is empty.
  void restore(const Tensors& full) noexcept;
  /// Returns true if the model wrote to a parameter that it was shown, or replaced it, since
  /// `note_versions`.
  bool was_written(std::size_t i) const;
  bool was_written() const;
  void note_versions();

  /// Throws BadModel if something was done to a parameter that its master weight does not see.
  void check();
  /// Checks requires_grad and hooks alone. From then on a parameter's gradient hooks are called
  /// with the gradient of its master weight.
  void check_hooks();

 private:
  /// The properties that a parameter had at the last check.
  struct Seen {
    bool requires_grad;
    std::uint32_t version;
    std::vector<std::int64_t> sizes;
    bool forwards_hooks = false;
    const void* memory = nullptr;  // the memory that the trainer gave to it last
  };

  static std::uint32_t version(const at::Tensor& t);
  [[noreturn]] void refuse(std::size_t i, const char* what, const char* cure) const;
  /// Throws BadModel unless a master has the parameter's shape, with the rows of its slice.
  void check_shape(std::size_t i, const at::Tensor& master, const Slice& slice) const;
  void forward_hooks(std::size_t i);
  const at::Tensor& parameter(std::size_t i) const { return unit->parameters[i]; }
  void set_data(const Tensors& given);
  /// Returns the address of the elements, or of the storage if the tensor is away and has no
  /// elements.
  static const void* memory(const at::Tensor& t);
  Tensors away_like(const Tensors& tensors) const;

  std::vector<Seen> seen_;  // what was seen of each parameter
  bool is_attached_ = false, is_exposed_ = false;
  Tensors gathered_;
  Tensors away_;  // the tensors that released parameters show; they are made early, because
                  // releasing must not allocate
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/unit_parameters.ipp>
#endif
