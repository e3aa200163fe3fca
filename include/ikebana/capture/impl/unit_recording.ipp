#pragma once
#include <algorithm>
#include <ikebana/capture/unit_recording.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_unit(const std::string& unit, const std::string& problems, bool throws) {
  const std::string text = "unit `" + unit + "` cannot be recorded:" + problems;
  if (throws)
    throw BadModel("Capture<EachUnit>: " + text +
                   "\nOr leave Capture out, or write `.on_refusal = OnRefusal::Eager`: such a unit "
                   "then runs as without it.");
  TORCH_WARN("ikebana: Capture<EachUnit>: a unit runs as without it from now on: ", text);
}

IKEBANA_INLINE UnitTensors::UnitTensors(const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters())
    parameters.push_back(item.value()), parameter_names.push_back(item.key());
  for (const auto& item : module.named_buffers())
    buffers.push_back(item.value()), buffer_names.push_back(item.key());
}

IKEBANA_INLINE std::size_t first_same(const Tensors& all, std::size_t i) {
  std::size_t k = 0;
  while (!all[k].is_same(all[i])) ++k;
  return k;
}

IKEBANA_INLINE std::string difference(const UnitRecording& a, const UnitRecording& b) {
  auto differ = [](const auto& x, const auto& y) {
    return !std::equal(x.begin(), x.end(), y.begin(), y.end(), same_part);
  };
  if (!(a.result_form == b.result_form) || a.first_results != b.first_results ||
      differ(a.results, b.results))
    return "the results are others, or have another form, than in the call before. Return the same "
           "in each call.";
  if (a.targets != b.targets || a.before_cast != b.before_cast || differ(a.gradients, b.gradients))
    return "the gradients of arguments and parameters are others than in the call before. Call the "
           "same operators in each call.";
  return {};
}

/// The node of autograd for one call of a unit.
class UnitNode : public torch::autograd::Node {
 public:
  UnitNode(std::string unit, std::shared_ptr<UnitBackwardCall> call)
      : unit_(std::move(unit)), call_(std::move(call)) {}

  std::string name() const override { return "ikebana::CapturedUnit"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& seeds) override {
    if (at::GradMode::is_enabled())
      throw BadModel("Capture<EachUnit>: the gradient of unit `" + unit_ +
                     "` is to be differentiated (create_graph), and a replay makes no graph of its "
                     "backward. Leave Capture out.");
    if (call_ == nullptr)
      throw BadModel("Capture<EachUnit>: the graph of unit `" + unit_ +
                     "` was freed by a former backward. Write retain_graph in that one.");
    if (!is_last_) return call_->backward(std::move(seeds), false);
    const auto call = std::move(call_);  // what it has kept is lost, also if it throws
    return call->backward(std::move(seeds), true);
  }
  void will_release_variables() override { is_last_ = true; }
  void release_variables() override { call_.reset(); }

 private:
  std::string unit_;
  std::shared_ptr<UnitBackwardCall> call_;
  bool is_last_ = false;
};

/// Passes on gradients as they are.
struct LaterGradients : torch::autograd::Node {
  explicit LaterGradients(std::uint64_t number) : Node(number) {}
  std::string name() const override { return "ikebana::LaterGradients"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

IKEBANA_INLINE void UnitEdges::add(torch::autograd::Edge edge, const at::Tensor& target,
                                   bool is_before_cast) {
  if (!is_before_cast) return all.push_back(std::move(edge));
  if (later_ == nullptr) later_ = bridge::make_node<LaterGradients>(number_);
  later_->add_next_edge(std::move(edge));
  all.emplace_back(later_, later_->add_input_metadata(target));
}

IKEBANA_INLINE void connect(const std::string& unit, std::shared_ptr<UnitBackwardCall> call,
                            UnitEdges outside, const Tensors& results) {
  auto node = bridge::make_node<UnitNode>(unit, std::move(call));
  node->set_next_edges(std::move(outside.all));
  for (const at::Tensor& t : results) bridge::set_result_of(t, node);
}

/// Stands between the graph of a recorded unit and where its gradients go. The unit's backward ends
/// there; another one comes to it only by a tensor of the unit's that is no result.
struct UnitEnd : torch::autograd::Node {
  UnitEnd(std::string name_of_unit, torch::autograd::Edge edge) : unit(std::move(name_of_unit)) {
    add_next_edge(std::move(edge));
  }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    throw BadModel("Capture<EachUnit>: a tensor that unit `" + unit +
                   "` computes is used by other code, and is no result of it. Return it.");
  }

  std::string unit;
};

IKEBANA_INLINE void RecordedUnit::allow(const UnitTensors& tensors) {
  for (std::size_t i = 0; i < tensors.parameters.size(); ++i)
    recorder.allow(tensors.parameters[i], MemoryUse::Persistent, tensors.parameter_names[i]);
  for (std::size_t i = 0; i < tensors.buffers.size(); ++i)
    recorder.allow(tensors.buffers[i], MemoryUse::Persistent, tensors.buffer_names[i]);
}

IKEBANA_INLINE void RecordedUnit::add_argument(const at::Tensor& t, const std::string& name) {
  if (t.defined() && (!t.has_storage() || t.layout() != at::kStrided))
    recorder.add_problem("`" + name + "` has the layout " + c10::str(t.layout()) +
                         ", and a tape holds strided tensors. Give it as a dense tensor.");
  else if (recorder.allow(t, MemoryUse::Given, name) != MemoryUse::Given)
    recorder.add_problem("`" + name +
                         "` shares its memory with a parameter or buffer of the unit, and a replay "
                         "is given other memory for it. Clone it, or let the unit read its own.");
  recording.arguments.push_back(recorder.kept(t));
}

IKEBANA_INLINE Tensors RecordedUnit::forward(c10::function_ref<Tensors(Recorder&)> compute) {
  begin_ = bridge::next_node_number();
  Tensors results = recorder.record(Phase::Forward, [&] { return compute(recorder); });
  end_ = bridge::next_node_number();
  return results;
}

IKEBANA_INLINE bool RecordedUnit::computes() const {
  const auto& operators = recorder.recording().operators;
  return std::any_of(operators.begin(), operators.end(),
                     [](const auto& one) { return one.kind == RecordedOperator::Kind::Computes; });
}

IKEBANA_INLINE void RecordedUnit::take_results(const Tensors& results) {
  recording.result_form.take_values(0, results);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const RecordedTensor result = recorder.kept(results[i], "a result");
    if (result.defined() && recorder.recording().memory[result.memory].use != MemoryUse::Made)
      recorder.add_problem(
          "a result is an argument, a parameter or a buffer, or a view of one, and the unit "
          "computes others. Return a clone.");
    recording.first_results.push_back(first_same(results, i));
    if (has_gradient(results[i]) && recording.first_results[i] == i)
      roots_.push_back(torch::autograd::impl::gradient_edge(results[i]));
    recording.results.push_back(result);
    recording.requires_grad.push_back(has_gradient(results[i]));
  }
  for (const RecordedTensor& t : recording.arguments)
    if (t.defined() && recorder.recording().memory[t.memory].is_changed)
      recorder.add_problem("`" + recorder.recording().memory[t.memory].name +
                           "` is changed in place, and is the caller's. Change a clone.");
}

IKEBANA_INLINE void RecordedUnit::end_forward(const Tensors& results, const UnitTargets& targets,
                                              UnitEdges& outside) {
  take_results(results);
  if (recorder.problems().empty()) cut(targets, outside);
}

/// Calls `f(node)` once for each node with a number from `begin` to before `end`.
template <class F>
void each_node(const std::vector<torch::autograd::Edge>& roots, std::uint64_t begin,
               std::uint64_t end, const F& f) {
  std::vector<torch::autograd::Node*> pending;
  ska::flat_hash_set<torch::autograd::Node*> seen;
  auto visit = [&](const torch::autograd::Edge& edge) {
    auto* node = edge.function.get();
    if (node != nullptr && node->sequence_nr() >= begin && node->sequence_nr() < end &&
        seen.insert(node).second)
      pending.push_back(node);
  };
  for (const auto& root : roots) visit(root);
  while (!pending.empty()) {
    auto* node = pending.back();
    pending.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge);
    f(*node);
  }
}

/// An edge of the unit's graph that leads out of it.
struct LeadingOut {
  torch::autograd::Node* node;
  std::size_t edge, target;
};

IKEBANA_INLINE void RecordedUnit::cut(const UnitTargets& targets, UnitEdges& outside) {
  using torch::autograd::Edge;
  std::vector<Edge> edges;
  for (const at::Tensor& t : targets.tensors)
    edges.push_back(has_gradient(t) ? torch::autograd::impl::gradient_edge(t) : Edge());
  std::vector<LeadingOut> all;
  each_node(roots_, begin_, end_, [&](torch::autograd::Node& node) {
    for (std::size_t i = 0; i < node.next_edges().size(); ++i) {
      const Edge& edge = node.next_edges()[i];
      const auto* to = edge.function.get();
      if (to == nullptr || (to->sequence_nr() >= begin_ && to->sequence_nr() < end_)) continue;
      const auto found = std::find(edges.begin(), edges.end(), edge);
      if (found == edges.end())
        return recorder.add_problem("`" + node.name() +
                                    "` passes a gradient on to a tensor that is neither an "
                                    "argument of the unit nor its parameter. Pass it as one.");
      all.push_back({&node, i, static_cast<std::size_t>(found - edges.begin())});
    }
  });
  if (!recorder.problems().empty()) return;
  // Autograd runs the nodes of a forward in the opposite order, and adds up gradients as they come.
  std::sort(all.begin(), all.end(), [](const LeadingOut& a, const LeadingOut& b) {
    return std::pair(b.node->sequence_nr(), a.edge) < std::pair(a.node->sequence_nr(), b.edge);
  });
  for (const LeadingOut& one : all) {
    const at::Tensor& target = targets.tensors[one.target];
    const bool is_before_cast = one.node->sequence_nr() < targets.first_cast[one.target];
    Edge& edge = one.node->next_edges()[one.edge];
    auto end = bridge::make_node<UnitEnd>(unit_, edge);
    end->add_input_metadata(target);
    outside.add(std::exchange(edge, Edge(std::move(end), 0)), target, is_before_cast);
    ends_.push_back(edge);
    recording.targets.push_back(one.target), recording.before_cast.push_back(is_before_cast);
  }
}

/// Several seeds may share memory: a sum passes on one gradient to all of its terms. The form of
/// seeds says which do.
IKEBANA_INLINE void RecordedUnit::add_seed(const at::Tensor& seed) {
  if (seed.defined() && recorder.knows(seed) && !is_with_seeds(recorder.kept(seed)))
    recorder.add_problem(
        "the gradient of a result shares memory with the unit's arguments or results, and a replay "
        "is given other memory for it. Clone what the unit is given.");
  else if (seed.defined() && (!seed.has_storage() || seed.layout() != at::kStrided))
    recorder.add_problem("the gradient of a result has the layout " + c10::str(seed.layout()) +
                         ", and a tape holds strided tensors. Make it dense.");
  else recorder.allow(seed, MemoryUse::Given, "seed");
  recording.seeds.push_back(recorder.kept(seed));
}

IKEBANA_INLINE bool RecordedUnit::is_with_seeds(const RecordedTensor& t) const {
  return std::any_of(recording.seeds.begin(), recording.seeds.end(),
                     [&](const RecordedTensor& seed) { return seed.memory == t.memory; });
}

IKEBANA_INLINE Tensors RecordedUnit::backward(const Tensors& seeds) {
  recorder.expect_other_contents();
  recording.seed_form.take_values(0, seeds);
  for (const at::Tensor& seed : seeds) add_seed(seed);
  Tensors gradients = recorder.record(Phase::Backward, [&] { return backward_again(seeds); });
  for (const at::Tensor& gradient : gradients)
    recording.gradients.push_back(recorder.kept(gradient, "a gradient"));
  return gradients;
}

IKEBANA_INLINE Tensors RecordedUnit::backward_again(const Tensors& seeds) const {
  std::vector<torch::autograd::Edge> roots;
  Tensors with;
  for (std::size_t i = 0; i < roots_.size(); ++i)
    if (seeds[i].defined()) roots.push_back(roots_[i]), with.push_back(seeds[i]);
  return torch::autograd::Engine::get_default_engine().execute(
      roots, with, /*keep_graph=*/true, /*create_graph=*/false, /*accumulate_grad=*/false, ends_);
}

}  // namespace ikebana::detail
