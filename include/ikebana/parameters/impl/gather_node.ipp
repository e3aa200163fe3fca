#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/gather_node.hpp>

namespace ikebana::detail {

IKEBANA_INLINE torch::autograd::variable_list Gather::forward(
    torch::autograd::AutogradContext* context, at::TensorList masters, const Tensors* gathered,
    ReduceGradients reduce) {
  context->set_materialize_grads(false);
  context->saved_data["reduce"] =
      c10::IValue::make_capsule(c10::make_intrusive<ReduceGradientsHolder>(std::move(reduce)));
  context->saved_data["masters"] = static_cast<std::int64_t>(masters.size());
  torch::autograd::variable_list views;
  for (const auto& t : *gathered) views.push_back(t.detach());
  return views;
}

IKEBANA_INLINE torch::autograd::variable_list Gather::backward(
    torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
  auto capsule = context->saved_data["reduce"].toCapsule();
  auto& holder = static_cast<ReduceGradientsHolder&>(*capsule);
  Tensors reduced = holder.reduce(std::move(gradients));
  // One for each argument of forward: the last two are no tensors.
  reduced.resize(static_cast<std::size_t>(context->saved_data["masters"].toInt()) + 2);
  return reduced;
}

IKEBANA_INLINE std::vector<torch::autograd::Edge> gather_node(const Tensors& masters,
                                                              const Tensors& gathered,
                                                              ReduceGradients reduce) {
  std::vector<torch::autograd::Edge> edges;
  for (const auto& view : Gather::apply(at::TensorList(masters), &gathered, std::move(reduce)))
    edges.push_back(torch::autograd::impl::gradient_edge(view));
  return edges;
}

}  // namespace ikebana::detail
