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

/// A node whose backward takes the gradients of gathered parameters: the edge of each parameter.
inline std::vector<torch::autograd::Edge> gather_node(const Tensors& masters,
                                                      const Tensors& gathered,
                                                      ReduceGradients reduce) {
  std::vector<torch::autograd::Edge> edges;
  for (const auto& view : Gather::apply(at::TensorList(masters), &gathered, std::move(reduce)))
    edges.push_back(torch::autograd::impl::gradient_edge(view));
  return edges;
}
/// Lets backward call a node that was made before the forward as soon as its gradients are there.
template <class Node>
void call_early(Node& node) {
  if constexpr (requires { node.set_sequence_nr(0); })
    node.set_sequence_nr(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace detail
}  // namespace ikebana
