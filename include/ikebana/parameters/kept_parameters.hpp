#pragma once
// Keeps gathered parameters between steps beside their master weights. A unit costs no guard, no
// closure and no node in a step, because the nodes between both are made once.
#include <ikebana/parameters/stored_parameters.hpp>
#include <ikebana/parameters/unit_backward.hpp>

namespace ikebana {

/// The parameters of a recipe in which a mechanism moves parameters and keeps them gathered.
template <class Mechanisms>
class KeptParameters : public StoredParameters<Mechanisms> {
  using Stored = StoredParameters<Mechanisms>;

 public:
  KeptParameters(Mechanisms& mechanisms, const UnitTable& table) : Stored(mechanisms, table) {
    if constexpr (Mechanisms::listens_to_backward)
      calls_ = std::make_shared<BackwardCalls<Mechanisms>>(mechanisms);
    nodes_.resize(units_.size());
    for (auto& stored : units_) {
      stored.set_gathered(gathered(stored));
      stored.users = 1;
    }
  }

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, Next&& next, Args&&... args) {
    UnitParameters& stored = units_[unit.index];
    stored.was_run = true;
    refresh(stored);
    if (!at::GradMode::is_enabled() || detail::recomputing())
      return next(std::forward<Args>(args)...);
    order_.enter(unit.index, /*trains=*/true);
    attach(stored);
    if constexpr (Mechanisms::listens_to_backward)
      return around_unit_backward(calls_, unit, next, std::forward<Args>(args)...);
    else return next(std::forward<Args>(args)...);
  }
  template <class Next>
  auto around_model(const Unit& root, Next&& next) {
    begin_gathers();
    refresh(units_[root.index]);
    if (!at::GradMode::is_enabled()) {
      auto result = next();
      finish_gathers();
      return result;
    }
    order_.begin();
    for (Nodes& nodes : nodes_) nodes.used = 0;
    attach(units_[root.index]);
    return next();
  }
  template <class Others>
  void backward(const Roots& roots, const Others& others) {
    this->run_backward(roots, others);
    this->detach_from_graph();
    finish_gathers();
  }
  /// Reduces undefined gradients, which is this rank's part in a call of all ranks.
  template <class Others>
  void backward_of_dummy(const Roots& roots, const Others& others) {
    const auto none = chain_.without_gradients();
    backward(roots, others);
  }
  /// Is called when master weights have new values. If Precision or Offload alone gathers, copies
  /// them at once, without an allocation. Otherwise the parameters show nothing until their unit is
  /// used, which gathers them and may throw.
  void mark_stale() noexcept {
    for (auto& stored : units_) {
      stored.is_stale = true;
      try {
        if (copied(stored)) continue;
      } catch (...) {  // the device cannot be used any more: its next use throws
      }
      stored.hide();
    }
  }
  /// Makes all ranks gather all units again, since they may have gathered different ones.
  void abort() noexcept {
    if (calls_) calls_->open.clear();
    this->detach_from_graph();
    for (auto& stored : units_) stored.arriving.clear();
    if constexpr (Mechanisms::gathers_from_ranks) mark_stale();
  }
  /// Makes new nodes at the next use. A node is computed on the stream on which it was made, and a
  /// graph of an accelerator is captured on another one.
  void forget_nodes() noexcept {
    for (Nodes& nodes : nodes_) nodes.edges.clear(), nodes.used = 0;
  }
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    for (auto& stored : units_) refresh(stored);
    MarkStale afterwards{*this};
    return this->with_full(f);
  }
  void state(Archive& archive) {
    this->archive_masters(archive);
    if (archive.loading()) mark_stale();
  }

 private:
  using Stored::chain_;
  using Stored::order_;
  using Stored::units_;

  /// The nodes of a unit: one for each use in a forward. Gradients of several uses are added up
  /// after `reduce`, in the dtype of the master weights.
  struct Nodes {
    std::vector<std::vector<torch::autograd::Edge>> edges;
    std::size_t used = 0;
  };
  struct MarkStale {
    KeptParameters& all;
    ~MarkStale() { all.mark_stale(); }
  };

  /// Begins to gather all units that have new values, also units that this rank does not run.
  void begin_gathers() {
    if constexpr (GatherChain<Mechanisms>::gathers_ahead)
      for (auto& stored : units_)
        if (stored.is_stale && !stored.is_arriving() && !stored.masters.empty())
          chain_.begin(stored);
  }
  void finish_gathers() {
    for (auto& stored : units_)
      if (stored.is_arriving()) refresh(stored);
  }
  Tensors gathered(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    return chain_.gather(stored);
  }
  /// Gathers a unit whose master weights have new values.
  void refresh(UnitParameters& stored) {
    if (!stored.is_stale || copied(stored)) return chain_.await_refresh(stored);
    stored.set_gathered(gathered(stored));
    stored.bump_versions();
    stored.is_stale = false;
  }
  bool copied(UnitParameters& stored) {
    at::NoGradGuard no_grad;
    if (!chain_.refresh(stored)) return false;
    stored.show_gathered();
    stored.bump_versions();
    stored.is_stale = false;
    return true;
  }
  void attach(UnitParameters& stored) {
    if (!stored.requires_grad()) return;
    Nodes& nodes = nodes_[stored.unit->index];
    if (nodes.used == nodes.edges.size()) nodes.edges.push_back(new_node(stored));
    stored.attach_to_graph(nodes.edges[nodes.used++]);
  }
  std::vector<torch::autograd::Edge> new_node(UnitParameters& stored) {
    auto edges = stored.new_node([weak = std::weak_ptr(this->self_), &stored](Tensors gradients) {
      auto& self = static_cast<KeptParameters&>(Stored::lock(weak));
      return self.chain_.reduce(*stored.unit, std::move(gradients));
    });
    for (const auto& edge : edges)
      if (edge.function) detail::call_early(*edge.function);
    return edges;
  }

  std::shared_ptr<BackwardCalls<Mechanisms>> calls_;  // graphs hold it weakly
  std::vector<Nodes> nodes_;                          // the nodes, by unit
};

}  // namespace ikebana
