#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/export/replay.hpp>

namespace ikebana::detail::exported {

/// Runs the nodes of a graph one after the other.
class Replay {
 public:
  Replay(const Graph& graph, const Values& symbols)
      : graph_(graph), symbols_(symbols), tensors_(graph.values.size()) {}

  std::vector<at::Tensor> run(const ModelWeights& weights, const std::vector<at::Tensor>& inputs) {
    using Kind = RecordedValue::Kind;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const RecordedValue& value = graph_.values[i].recorded;
      if (value.kind == Kind::Weight) tensors_[i] = weights.all()[value.index].tensor;
      if (value.kind == Kind::Input) tensors_[i] = inputs[value.index];
      if (value.kind == Kind::Constant) tensors_[i] = graph_.constants[value.index].values;
    }
    const std::vector<std::vector<ValueId>> last = last_uses();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      run(graph_.nodes[i]);
      for (const ValueId id : last[i]) tensors_[id].reset();
    }
    std::vector<at::Tensor> outputs;
    for (const auto& id : graph_.outputs) outputs.push_back(id ? tensors_[*id] : at::Tensor());
    return outputs;
  }

 private:
  void run(const GraphNode& node) {
    torch::jit::Stack stack;
    for (std::size_t a = 0; a < node.inputs.size(); ++a)
      stack.push_back(value_of(node.inputs[a], node.op.schema().arguments()[a]));
    node.op.callBoxed(stack);
    const std::size_t begin = stack.size() - node.outputs.size();
    for (std::size_t r = 0; r < node.outputs.size(); ++r) take(node.outputs[r], stack[begin + r]);
  }
  void take(const Operand& output, const c10::IValue& result) {
    if (const auto* id = std::get_if<ValueId>(&output)) tensors_[*id] = result.toTensor();
    else if (const auto* list = std::get_if<ValueList>(&output))
      for (std::size_t i = 0; i < list->size(); ++i)
        if ((*list)[i]) tensors_[*(*list)[i]] = result.toListRef()[i].toTensor();
  }
  c10::IValue value_of(const Argument& argument, const c10::Argument& schema) const {
    if (const auto* id = std::get_if<ValueId>(&argument)) return tensors_[*id];
    if (const auto* list = std::get_if<ValueList>(&argument)) return tensors_of(*list, schema);
    if (const auto* size = std::get_if<Size>(&argument)) return graph_.sizes.value(*size, symbols_);
    if (const auto* sizes = std::get_if<std::vector<Size>>(&argument)) {
      std::vector<std::int64_t> values;
      for (const Size& size : *sizes) values.push_back(graph_.sizes.value(size, symbols_));
      return values;
    }
    return std::get<c10::IValue>(argument);
  }
  c10::IValue tensors_of(const ValueList& list, const c10::Argument& schema) const {
    const bool optional = schema.type()->str().find("Tensor?") != std::string::npos ||
                          schema.type()->str().find("Optional[Tensor]") != std::string::npos;
    c10::List<at::Tensor> all;
    c10::List<std::optional<at::Tensor>> some;
    for (const auto& id : list) {
      if (optional) some.push_back(id ? std::optional(tensors_[*id]) : std::nullopt);
      else all.push_back(id ? tensors_[*id] : at::Tensor());
    }
    return optional ? c10::IValue(some) : c10::IValue(all);
  }
  /// Returns the values that each node is the last one to use.
  std::vector<std::vector<ValueId>> last_uses() const {
    std::vector<std::optional<std::size_t>> last(graph_.values.size());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto use = [&](ValueId id) { last[id] = i; };
      for (const Argument& argument : graph_.nodes[i].inputs) {
        if (const auto* id = std::get_if<ValueId>(&argument)) use(*id);
        if (const auto* list = std::get_if<ValueList>(&argument)) each_value(*list, use);
      }
      for (const Operand& output : graph_.nodes[i].outputs) each_value(output, use);
    }
    for (const auto& output : graph_.outputs)
      if (output) last[*output].reset();
    std::vector<std::vector<ValueId>> by_node(graph_.nodes.size());
    for (ValueId id = 0; id < last.size(); ++id)
      if (last[id] && graph_.values[id].recorded.kind == RecordedValue::Kind::Made)
        by_node[*last[id]].push_back(id);
    return by_node;
  }

  const Graph& graph_;
  const Values& symbols_;
  std::vector<at::Tensor> tensors_;
};

IKEBANA_INLINE std::vector<at::Tensor> replay(const Graph& graph, const ModelWeights& weights,
                                              const std::vector<at::Tensor>& inputs,
                                              const Values& symbols) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return Replay(graph, symbols).run(weights, inputs);
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor x = a.detach().to(at::kCPU).contiguous(),
                   y = b.detach().to(at::kCPU).contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

IKEBANA_INLINE void check_replay(const std::vector<at::Tensor>& of_graph,
                                 const std::vector<at::Tensor>& of_model,
                                 const std::string& sizes) {
  for (std::size_t i = 0; i < of_model.size(); ++i)
    if (!same_bits(of_graph[i], of_model[i]))
      throw BadModel(
          "export_program: the recorded operators do not give the model's output " +
          std::to_string(i) + (sizes.empty() ? "" : " with " + sizes) +
          ". The forward depends on something that is no operator: a number that the host read "
          "by a pointer, a random number, or a tensor that changes from call to call. Compute it "
          "by operators.");
}

}  // namespace ikebana::detail::exported
