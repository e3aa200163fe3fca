#pragma once
// Makes nodes of autograd's graph that are no torch::autograd::Function: one may pass several
// gradients on to the same tensor.
#include <ikebana/bridge/version.hpp>

namespace ikebana::bridge {

/// Makes a node of this type. Graphs of any depth are released without recursion.
template <class Node, class... Args>
auto make_node(Args&&... args) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>)
    return std::shared_ptr<Node>(new Node(std::forward<Args>(args)...),
                                 torch::autograd::deleteNode);
  else return c10::make_intrusive<Node>(std::forward<Args>(args)...);
}
/// Makes a tensor without a graph the next result of a node, which is then asked for its gradient.
inline void set_result_of(at::Tensor t, const NodePointer& node) {
  torch::autograd::create_gradient_edge(t, node);
}
/// Returns the number of the next node that this thread makes. Nodes with higher numbers run first
/// in backward, so that a forward's nodes run in the opposite order.
inline std::uint64_t next_node_number() { return at::sequence_number::peek(); }
/// Takes that number for a node that is made later.
inline std::uint64_t take_node_number() { return at::sequence_number::get_and_increment(); }

}  // namespace ikebana::bridge
