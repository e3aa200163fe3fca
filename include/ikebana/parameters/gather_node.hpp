#pragma once
// The autograd node between a unit's master weights and its gathered parameters.
#include <functional>
#include <ikebana/hooks/arguments.hpp>
#include <limits>

namespace ikebana {

/// Reduces the gradients of a unit's gathered parameters: takes one per parameter, undefined where
/// it got none, and returns one per master.
using ReduceGradients = std::function<Tensors(Tensors)>;

namespace detail {

struct ReduceGradientsHolder : torch::CustomClassHolder {
  ReduceGradients reduce;
  explicit ReduceGradientsHolder(ReduceGradients r) : reduce(std::move(r)) {}
};

/// The edges of a node. Forward: master weights in, gathered parameters out. Backward: gradients of
/// gathered parameters in, of master weights out. The engine itself counts when all gradients of a
/// unit have arrived.
struct Gather : torch::autograd::Function<Gather> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                at::TensorList masters, const Tensors* gathered,
                                                ReduceGradients reduce);
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients);
};

/// A node whose backward takes the gradients of gathered parameters: the edge of each parameter.
std::vector<torch::autograd::Edge> gather_node(const Tensors& masters, const Tensors& gathered,
                                               ReduceGradients reduce);
/// Lets backward call a node that was made before the forward as soon as its gradients are there.
template <class Node>
void call_early(Node& node) {
  if constexpr (requires { node.set_sequence_nr(0); })
    node.set_sequence_nr(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/gather_node.ipp>
#endif
