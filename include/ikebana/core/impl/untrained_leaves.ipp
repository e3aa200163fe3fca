#pragma once
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/core/claim.hpp>
#include <ikebana/core/not_trained.hpp>
#include <ikebana/core/untrained_leaves.hpp>
#include <ikebana/detail/form.hpp>
#include <new>

namespace ikebana::detail {

IKEBANA_INLINE bool LeafRecord::made(const at::Tensor& tensor) const {
  return impls_.count(tensor.unsafeGetTensorImpl()) != 0;
}

IKEBANA_INLINE std::string LeafRecord::place(const at::Tensor& leaf) const {
  const auto found = users_.find(leaf.unsafeGetTensorImpl());
  if (found == users_.end() || found->second == nullptr) return "";
  return ", in unit `" + found->second->name + "`";
}

IKEBANA_INLINE void LeafRecord::note_input(const at::Tensor& t) {
  if (t.defined() && t.requires_grad() && t.is_leaf())
    users_.try_emplace(t.unsafeGetTensorImpl(), open_units.empty() ? nullptr : open_units.back());
}

IKEBANA_INLINE void LeafRecord::note_output(const at::Tensor& t) {
  if (!t.defined() || (t.requires_grad() && !t.is_leaf())) return;
  if (!c10::isFloatingType(t.scalar_type()) && !c10::isComplexType(t.scalar_type())) return;
  if (impls_.insert(t.unsafeGetTensorImpl()).second) made_.emplace_back(t.getIntrusivePtr());
}

IKEBANA_INLINE void LeafRecord::check_complete() const {
  if (!is_complete_) throw std::bad_alloc();
}

IKEBANA_INLINE LeafWatch::LeafWatch(LeafRecord& record)
    : callback_(bridge::operator_callback(&begin, &end)) {
  current() = &record;
}

IKEBANA_INLINE LeafWatch::~LeafWatch() { current() = nullptr; }

IKEBANA_INLINE LeafRecord*& LeafWatch::current() {
  static thread_local LeafRecord* record = nullptr;
  return record;
}

IKEBANA_INLINE std::unique_ptr<at::ObserverContext> LeafWatch::begin(
    const at::RecordFunction& function) {
  noting([&](LeafRecord& record) {
    each_tensor(bridge::recorded_inputs(function),
                [&](const at::Tensor& t) { record.note_input(t); });
  });
  return nullptr;
}

IKEBANA_INLINE void LeafWatch::end(const at::RecordFunction& function, at::ObserverContext*) {
  noting([&](LeafRecord& record) {
    each_tensor(function.outputs(), [&](const at::Tensor& t) { record.note_output(t); });
  });
}

IKEBANA_INLINE WatchedUnit::WatchedUnit(LeafRecord* record, const Unit& unit) : record_(record) {
  if (record_ != nullptr) record_->open_units.push_back(&unit);
}

IKEBANA_INLINE WatchedUnit::~WatchedUnit() {
  if (record_ != nullptr) record_->open_units.pop_back();
}

IKEBANA_INLINE UntrainedLeaves::UntrainedLeaves() = default;
IKEBANA_INLINE UntrainedLeaves::~UntrainedLeaves() = default;

IKEBANA_INLINE Loss UntrainedLeaves::forward_of(const void* batch, VisitBatch visit, bool trains,
                                                bool is_first_step,
                                                c10::function_ref<Loss()> loss) {
  const bool is_first = is_first_step && trains && !std::exchange(was_watched_, true);
  batch_ = batch, visit_batch_ = visit;
  record_.reset(), asked_.clear(), untrained_.clear();
  if (!is_first && !(trains && std::exchange(is_due_, false))) return loss();
  record_ = std::make_unique<LeafRecord>();
  const LeafWatch watch(*record_);
  Loss result = watched(is_first, loss);
  record_->check_complete();
  return result;
}

IKEBANA_INLINE void UntrainedLeaves::Check::operator()(const at::Tensor& leaf) const {
  if (self != nullptr) self->check(model, leaf);
}

IKEBANA_INLINE void UntrainedLeaves::Check::end_walk() const {
  if (self != nullptr) self->end_walk();
}

IKEBANA_INLINE void UntrainedLeaves::check(torch::nn::Module& model, const at::Tensor& leaf) {
  if (!leaf.defined() || !leaf.requires_grad()) return;
  const c10::TensorImpl* impl = leaf.unsafeGetTensorImpl();
  if (allowed_.count(impl) != 0 || !asked_.insert(impl).second) return;
  if (is_owned(model, leaf)) return void(allowed_.insert(impl));
  if (is_in_batch(leaf)) return;
  if (record_ && record_->made(leaf)) return void(makes_leaves_ = true);
  std::erase_if(seen_, [](const Weak& weak) { return weak.expired(); });
  const bool is_known = std::any_of(seen_.begin(), seen_.end(), [&](const Weak& weak) {
    return weak._unsafe_get_target() == impl;
  });
  if (!is_known) seen_.emplace_back(leaf.getIntrusivePtr());
  if (record_ || is_known) return untrained_.push_back(leaf);
  is_due_ = !makes_leaves_;
}

IKEBANA_INLINE void UntrainedLeaves::end_walk() {
  const auto record = std::exchange(record_, nullptr);
  asked_.clear();
  if (untrained_.empty()) return;
  is_due_ = true;
  refuse(untrained_, record.get());
}

IKEBANA_INLINE bool UntrainedLeaves::is_owned(torch::nn::Module& model, const at::Tensor& leaf) {
  for (const auto& p : model.parameters())
    if (p.is_same(leaf)) return true;
  for (const auto& item : model.named_buffers())
    if (item.value().is_same(leaf))
      throw BadModel("step: the buffer `" + item.key() +
                     "` requires a gradient, and buffers are not trained. Register it by "
                     "register_parameter, or call requires_grad_(false) on it.");
  ClaimRegistry& registry = ClaimRegistry::get();
  const std::lock_guard lock(registry.mutex);
  return registry.counts.count(leaf.unsafeGetTensorImpl()) != 0 || DeclaredTensors::get().has(leaf);
}

IKEBANA_INLINE bool UntrainedLeaves::is_in_batch(const at::Tensor& leaf) {
  visited_.clear(), batch_leaves_.clear();
  visit_batch_(batch_, [&](const at::Tensor& t) {
    if (t.defined() && t.requires_grad()) visit_graph(t);
  });
  return batch_leaves_.count(leaf.unsafeGetTensorImpl()) != 0;
}

IKEBANA_INLINE void UntrainedLeaves::visit_graph(const at::Tensor& t) {
  std::vector<torch::autograd::Node*> pending;
  auto visit = [&](const torch::autograd::Edge& edge) {
    auto* node = edge.function.get();
    if (node == nullptr || !visited_.insert(node).second) return;
    pending.push_back(node);
    if (auto* end = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      batch_leaves_.insert(end->variable.unsafeGetTensorImpl());
  };
  visit(torch::autograd::impl::gradient_edge(t));
  while (!pending.empty()) {
    const auto* node = pending.back();
    pending.pop_back();
    for (const auto& edge : node->next_edges()) visit(edge);
  }
}

IKEBANA_INLINE void UntrainedLeaves::refuse(const std::vector<at::Tensor>& leaves,
                                            const LeafRecord* record) {
  constexpr std::size_t most = 4;
  std::string list;
  for (std::size_t i = 0; i < leaves.size() && i < most; ++i)
    list += (i > 0 ? "; " : "") + tensor_text(leaves[i]) + (record ? record->place(leaves[i]) : "");
  if (leaves.size() > most) list += "; and " + std::to_string(leaves.size() - most) + " more";
  throw BadModel(
      "step: the loss computes with tensors that require a gradient and that nothing trains (" +
      list +
      "). Register the layers that hold them in the model, those of a std::vector one by one "
      "(register_module, register_parameter). Call requires_grad_(false) on what is not to be "
      "trained, or not_trained(tensor) where its gradient is needed.");
}

}  // namespace ikebana::detail
