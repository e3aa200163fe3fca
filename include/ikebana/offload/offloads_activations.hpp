#pragma once
// Defines the part of a mechanism that offloads activations.
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>
#include <ikebana/offload/saved_tensor.hpp>

namespace ikebana::detail {

/// Extends a mechanism so that tensors that autograd saves in the loss lie elsewhere until
/// backward. One scope is open around the loss; checkpoint frames open their own within it, so that
/// only what they keep is moved.
template <class Policy, class Base>
class OffloadsActivations : public Base, bridge::SavedTensorHooks {
 public:
  using Base::Base;

  void attach(c10::Device device, const UnitTable& units) {
    bridge::require_saved_tensor_hooks("Offload", "Activations");
    bridge::require_random_operators("Offload");
    Base::attach(device, units);
    check_bytes();
    units_ = &units;
    const bridge::HostCopies copies(bridge::with_index(device));
    stored_ = std::make_shared<StoredActivations>(copies, memory_of(this->values, copies));
  }
  template <class Batch, class Next>
  decltype(auto) around_loss(const Batch& batch, Next&& next) {
    if (!at::GradMode::is_enabled()) return next();
    check_bytes();
    stays_.begin_forward(stored_->device(), this->values.min_bytes, *units_, batch);
    const Forward forward(*stored_);
    const bridge::SavedTensorScope scope(this);
    const bridge::OperatorScope<bridge::RandomOperators> random_operators(stays_);
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (!at::GradMode::is_enabled() || recomputing()) return next(std::forward<Args>(args)...);
    stays_.add(unit.parameters);  // they are on the device now
    const Section section(*stored_);
    return Base::around_unit(unit, std::forward<Next>(next), std::forward<Args>(args)...);
  }
  void begin_step() noexcept {
    Base::begin_step();
    stored_->begin_step();
  }
  void end_step(const StepGradients& gradients, Report& report) noexcept {
    Base::end_step(gradients, report);
    if (!report.offloaded) report.offloaded.emplace();
    stored_->end_step(*report.offloaded);
  }

 private:
  struct Forward {
    StoredActivations& stored;
    explicit Forward(StoredActivations& s) : stored(s) { stored.begin_forward(); }
    ~Forward() { stored.end_forward(); }
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;
  };
  struct Section {
    StoredActivations& stored;
    explicit Section(StoredActivations& s) : stored(s) { stored.begin_section(); }
    ~Section() {
      try {
        stored.begin_section();
      } catch (...) {  // there is no memory for another section, so this one goes on
      }
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;
  };

  std::unique_ptr<torch::autograd::SavedVariableHooks> make() override {
    return std::make_unique<OffloadedTensor>(stored_, stays_);
  }
  bool keep_for_others() const override { return true; }
  void check_bytes() const {
    if (this->values.min_bytes < 0)
      throw BadValue("Offload: min_bytes is " + std::to_string(this->values.min_bytes) +
                     "; write how many bytes a tensor must have to be moved, 0 or more.");
  }

  const UnitTable* units_ = nullptr;
  std::shared_ptr<StoredActivations> stored_;
  StaysOnDevice stays_;
};

}  // namespace ikebana::detail
