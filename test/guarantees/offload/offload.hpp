#pragma once
// The tests of Offload share trainings under it, what they moved, and what must move.
#include "guarantees/zoo.hpp"

#include <filesystem>
#include <set>

namespace guarantees::offload {

const std::filesystem::path folder = std::filesystem::current_path();  // no memory, as /tmp may be

using Activations_ = Offload<CPU, Activations>;
using Everything = Offload<CPU, Activations, Parameters>;

/// Returns the policy with its fields set so that everything is moved.
template <class Policy>
Policy moving(std::int64_t min_bytes = 0) {
  Policy policy;
  if constexpr (requires { policy.folder; }) policy.folder = folder;
  if constexpr (requires { policy.window_bytes; }) policy.window_bytes = 1000;
  if constexpr (requires { policy.min_bytes; }) policy.min_bytes = min_bytes;
  if constexpr (requires { policy.allow_unused_units; }) policy.allow_unused_units = true;
  return policy;
}

/// Lists what one step has moved: out and back of activations, parameters back, gradients out,
/// copies out and back, the peak.
using Numbers = std::vector<std::int64_t>;
inline Numbers numbers(const Report& report) {
  const OffloadTraffic& t = report.offloaded.value();
  return {t.activations_out, t.activations_back, t.parameters_back, t.gradients_out,
          t.copies_out,      t.copies_back,      t.peak_stored};
}

/// A training, and what each of its steps has moved.
struct Moved {
  Trace trace;
  std::vector<std::optional<OffloadTraffic>> traffic;

  const OffloadTraffic& last() const { return traffic.back().value(); }
};
/// Adds what a trainer of any recipe holds at its end: losses, weights, buffers, the next random
/// numbers.
template <class T>
void add_end(T& trainer, Trace& trace) {
  trainer.with_full_weights([&](auto& full) {
    for (auto& p : parameters_of(full)) trace.push_back(p);
  });
  for (const auto& b : ikebana::detail::module_of(trainer.model())->buffers())
    trace.push_back(b.detach().clone());
  trace.push_back(torch::rand({4}));
}
template <class Model, class Batches, class... Policies>
Moved steps_of(const Model& model, const Batches& batches, const Policies&... policies) {
  Trainer trainer{model, AdamW{.lr = 1e-2}, policies...};
  torch::manual_seed(11);
  Moved moved;
  for (const auto& batch : batches) {
    const Report report = trainer.step(batch);
    moved.trace.push_back(report.mean());
    moved.traffic.push_back(report.offloaded);
  }
  add_end(trainer, moved.trace);
  return moved;
}
inline Zoo zoo(Kind kind) {
  return seeded([&] { return Zoo(kind); });
}
inline std::vector<Rows> zoo_batches() { return class_batches(3, 6, width, classes); }
template <class... Policies>
Moved zoo_steps(Kind kind, const Policies&... policies) {
  return steps_of(zoo(kind), zoo_batches(), policies...);
}
template <class F>
void each_kind(F&& f) {
  for (int k = 0; k < static_cast<int>(Kind::count); ++k) {
    INFO("model: " << name_of(static_cast<Kind>(k)));
    f(static_cast<Kind>(k));
  }
}

/// Moves nothing, and counts in each step what Offload<CPU, Activations> must move. This is every
/// storage, in each of its versions, of which autograd or a checkpoint keeps a tensor, except for
/// parameters, buffers and the batch. Both directions are reported with the same numbers.
struct CountsSaved {
  using axis = ikebana::axis::offload;
};

}  // namespace guarantees::offload

template <>
struct ikebana::Mechanism<guarantees::offload::CountsSaved> : ikebana::OffloadHooks,
                                                              ikebana::bridge::SavedTensorHooks {
  guarantees::offload::CountsSaved values;
  explicit Mechanism(guarantees::offload::CountsSaved v) : values(v) {}

  void attach(c10::Device, const UnitTable& table) { units_ = &table; }
  template <class Batch, class Next>
  decltype(auto) around_loss(const Batch& batch, Next&& next) {
    here_.clear(), seen_.clear(), alive_.clear();
    for (const Unit& unit : units_->units()) keep_here(unit.parameters);
    keep_here(units_->units()[0].module->buffers());
    ikebana::detail::for_each_tensor(batch, [&](const at::Tensor& t) { keep_here({t}); });
    const bridge::SavedTensorScope scope(this);
    return next();
  }
  bool keep_for_others() const override { return true; }
  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<Kept>(*this);
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    report.offloaded = std::exchange(counted_, {});
  }

 private:
  struct Kept : torch::autograd::SavedVariableHooks {
    Mechanism& counts;
    at::Tensor tensor;
    explicit Kept(Mechanism& m) : counts(m) {}
    void call_pack_hook(const at::Tensor& t) override {
      tensor = t.tensor_data();
      counts.see(t);
    }
    at::Tensor call_unpack_hook() override { return tensor; }
  };
  static const void* storage_of(const at::Tensor& t) { return t.storage().unsafeGetStorageImpl(); }
  void keep_here(const Tensors& tensors) {
    for (const at::Tensor& t : tensors) here_.insert(storage_of(t));
  }
  void see(const at::Tensor& t) {
    if (!t.defined() || t.storage().nbytes() == 0 || here_.count(storage_of(t)) > 0) return;
    alive_.push_back(t.tensor_data());  // so that no other storage has this address
    if (!seen_.insert({storage_of(t), t._version()}).second) return;
    counted_.activations_out += static_cast<std::int64_t>(t.storage().nbytes());
    counted_.activations_back = counted_.activations_out;
    counted_.copies_back = ++counted_.copies_out;
  }

  const UnitTable* units_ = nullptr;
  std::set<const void*> here_;
  std::set<std::pair<const void*, std::int64_t>> seen_;
  Tensors alive_;
  OffloadTraffic counted_;
};
