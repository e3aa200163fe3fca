#pragma once
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/core/leaf_watch.hpp>
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
    : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}))) {
  current() = &record;
}

IKEBANA_INLINE LeafWatch::~LeafWatch() {
  at::removeCallback(handle_);
  current() = nullptr;
}

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

}  // namespace ikebana::detail
