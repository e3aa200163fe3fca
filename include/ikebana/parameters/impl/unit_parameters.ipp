#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/parameters/unit_parameters.hpp>
#include <set>

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

IKEBANA_INLINE torch::autograd::variable_list ForwardGradientHooks::operator()(
    const torch::autograd::variable_list& gradients) {
  torch::autograd::variable_list results = gradients;
  for (const auto& hook : torch::autograd::impl::hooks(parameter)) results = (*hook)(results);
  return results;
}

IKEBANA_INLINE bool has_gradient_hooks(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (meta == nullptr) return false;
  const auto& list = meta->cpp_hooks_list_;
  return list ? !list->empty() || meta->hooks_.size() > 1 : !meta->hooks_.empty();
}

IKEBANA_INLINE bool has_accumulation_hook(const at::Tensor& parameter) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  return meta != nullptr && meta->post_acc_grad_hooks_ != nullptr;
}

IKEBANA_INLINE void make_hook_list(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return;
  const auto* meta = torch::autograd::impl::get_autograd_meta(parameter);
  if (!meta->cpp_hooks_list_ && meta->hooks_.empty())
    torch::autograd::impl::create_cpp_hook(parameter);
}

IKEBANA_INLINE void forward_gradient_hooks(const at::Tensor& parameter, const at::Tensor& master) {
  namespace impl = torch::autograd::impl;
  make_hook_list(master);  // else a hook that a mechanism registers there would replace this one
  auto& hooks = impl::hooks(master);
  hooks.insert(hooks.begin(), std::make_unique<ForwardGradientHooks>(parameter));
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Tensors UnitParameters::without_aliases(Tensors gathered) const {
  if (masters_in_place) return gathered;
  for (auto& t : gathered)
    for (const auto& master : masters)
      if (detail::same_storage(t, master)) t = t.clone();
  return gathered;
}

IKEBANA_INLINE bool UnitParameters::requires_grad() const {
  for (const auto& p : unit->parameters)
    if (p.requires_grad()) return true;
  return false;
}

IKEBANA_INLINE void UnitParameters::set_gathered(Tensors fresh) {
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

IKEBANA_INLINE void UnitParameters::show_gathered() {
  set_data(gathered_);
  is_exposed_ = false;
}

IKEBANA_INLINE void UnitParameters::bump_versions() {
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    parameter(i).unsafeGetTensorImpl()->bump_version();
    seen_[i].version = version(parameter(i));
  }
}

IKEBANA_INLINE void UnitParameters::expose(const Tensors& full) {
  is_exposed_ = true;
  set_data(full);
}

IKEBANA_INLINE void UnitParameters::release() noexcept {
  is_stale = is_exposed_ = false;
  for (auto& t : gathered_) {
    auto* storage = t.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(0);
  }
  set_data(away_);
}

IKEBANA_INLINE void UnitParameters::attach_to_graph(
    const std::vector<torch::autograd::Edge>& edges) {
  for (std::size_t i = 0; i < edges.size(); ++i)
    if (parameter(i).requires_grad())
      torch::autograd::impl::set_gradient_edge(parameter(i), edges[i]);
  is_attached_ = true;
}

IKEBANA_INLINE std::vector<torch::autograd::Edge> UnitParameters::new_node(
    ReduceGradients reduce) const {
  return detail::gather_node(masters, gathered_, std::move(reduce));
}

IKEBANA_INLINE void UnitParameters::detach_from_graph() noexcept {
  if (!std::exchange(is_attached_, false)) return;
  for (const auto& p : unit->parameters) torch::autograd::impl::set_gradient_edge(p, {});
}

IKEBANA_INLINE void UnitParameters::restore(const Tensors& full) noexcept {
  if (!full.empty()) expose(full);
  masters.clear(), values.clear();
}

IKEBANA_INLINE bool UnitParameters::was_written(std::size_t i) const {
  return version(parameter(i)) != seen_[i].version || memory(parameter(i)) != seen_[i].memory;
}

IKEBANA_INLINE bool UnitParameters::was_written() const {
  for (std::size_t i = 0; i < seen_.size(); ++i)
    if (was_written(i)) return true;
  return false;
}

IKEBANA_INLINE void UnitParameters::note_versions() {
  for (std::size_t i = 0; i < seen_.size(); ++i) seen_[i].version = version(parameter(i));
}

IKEBANA_INLINE void UnitParameters::check() {
  if (is_stale || is_exposed_) return;  // the parameters are about to be written by the trainer
  const Tensors& shown = users > 0 ? gathered_ : away_;
  for (std::size_t i = 0; i < seen_.size(); ++i)
    if (version(parameter(i)) != seen_[i].version || !detail::same_storage(parameter(i), shown[i]))
      refuse(i, "was changed, and its master weight was not, so the next update discards that",
             "Change it within Trainer::with_full_weights, or before the trainer is made.");
  check_hooks();
}

IKEBANA_INLINE void UnitParameters::check_hooks() {
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

IKEBANA_INLINE std::uint32_t UnitParameters::version(const at::Tensor& t) {
  const auto& counter = t.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

IKEBANA_INLINE void UnitParameters::refuse(std::size_t i, const char* what,
                                           const char* cure) const {
  throw BadModel("trainer: `" + unit->names[i] + "` " + what +
                 ", under a policy that stores master weights apart. " + cure);
}

IKEBANA_INLINE void UnitParameters::check_shape(std::size_t i, const at::Tensor& master,
                                                const Slice& slice) const {
  std::vector<std::int64_t> expected = slice.sizes;
  if (!expected.empty()) expected[0] = slice.rows.count;
  if (master.sizes() == expected) return;
  throw BadModel("trainer: a policy made a master weight of shape " + c10::str(master.sizes()) +
                 " of `" + unit->names[i] + "`; it must have the shape " +
                 c10::str(at::IntArrayRef(expected)) + ", since parameters are cut by rows alone.");
}

IKEBANA_INLINE void UnitParameters::forward_hooks(std::size_t i) {
  if (!slices[i].is_whole())
    refuse(i, "has a gradient hook, and its master weight is a slice", "Remove the hook.");
  detail::forward_gradient_hooks(parameter(i), masters[i]);
  seen_[i].forwards_hooks = true;
}

IKEBANA_INLINE void UnitParameters::set_data(const Tensors& given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    parameter(i).set_data(given[i]);
    if (i < seen_.size()) seen_[i].memory = memory(parameter(i));
  }
}

IKEBANA_INLINE const void* UnitParameters::memory(const at::Tensor& t) {
  if (detail::is_away(t)) return t.storage().unsafeGetStorageImpl();
  return t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get();
}

IKEBANA_INLINE Tensors UnitParameters::away_like(const Tensors& tensors) const {
  Tensors away;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    away.push_back(detail::away_tensor(tensors[i], unit->names[i]));
  return away;
}

}  // namespace ikebana
