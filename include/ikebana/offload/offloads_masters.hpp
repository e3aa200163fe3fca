#pragma once
// Defines the part of a mechanism that offloads master weights, gradients and the state of
// optimizers.
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/fake/fake_tensors.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/moved_gradients.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

/// A weak reference to a tensor.
class WeakTensor {
 public:
  explicit WeakTensor(const at::Tensor& t) : impl_(t.getIntrusivePtr()) {}
  at::Tensor lock() const { return at::Tensor(impl_.lock()); }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> impl_;
};

/// The memory of a fake tensor that stands for a use of a pool's buffer. The pool counts the
/// buffer, so this counts no bytes.
class CountedByPool final : public bridge::FakeMemory {
 public:
  explicit CountedByPool(std::shared_ptr<void> buffer) : buffer_(std::move(buffer)) {}
  std::size_t allocated(std::size_t, c10::Device) override { return 0; }
  void freed(std::size_t) noexcept override {}

 private:
  std::shared_ptr<void> buffer_;
};

/// Keeps master weights in other memory, where optimizers update them. Units compute with copies on
/// the device. With `Keeps` the copies stay there. Otherwise each unit's copies are there while it
/// computes.
template <class Policy, bool Keeps>
class OffloadsMasters : public OffloadHooks, StateStorage, GradientStorage {
 public:
  static constexpr bool moves_parameters = true, keeps_gathered = Keeps, gathers_ahead = !Keeps;
  static constexpr bool offloads_masters = true;
  using carries_out = Policy;
  Policy values;
  explicit OffloadsMasters(Policy v) : values(std::move(v)), folder_(values) {}

  void attach(c10::Device device, const UnitTable& units) {
    check_window();
    copies_.emplace(bridge::with_index(device));
    memory_ = memory_of(values, *copies_), state_memory_ = memory_of(values, *copies_);
    unit_memory_ =
        std::make_shared<BufferPool>(std::make_shared<HostMemory>(*copies_), /*bounded=*/true);
    units_.assign(units.units().size(), {});
    gradients_.emplace(*copies_, memory_, /*reuses=*/is_file || copies_->overlap());
  }
  void begin(const Masters& masters) { gradients_->begin(masters, units_.size()); }
  /// Returns the bytes of memory that units have left for the next ones.
  std::int64_t idle_bytes() const { return unit_memory_->free_bytes(); }
  StateStorage* state_storage() { return is_file ? this : nullptr; }
  GradientStorage* gradient_storage() { return this; }

  Tensors to_masters(const Unit&, Tensors full) {
    for (at::Tensor& t : full) t = stored(t, *memory_);
    return full;
  }
  void begin_gather(const Unit& unit, const Tensors& masters) {
    if (copies_->overlap()) return void(units_[unit.index] = begin_copies(masters));
    for (const at::Tensor& master : masters) memory_->prefetch_pages(master);
  }
  Tensors gather(const Unit& unit, const Tensors& masters) {
    OfUnit& own = units_[unit.index];
    if (own.on_device.empty()) own = begin_copies(masters);
    copies_->wait_for(own.arrived);
    Tensors here = std::exchange(own.on_device, {});
    own.last.clear();
    for (std::size_t i = 0; Keeps && i < here.size(); ++i) own.last.emplace_back(here[i]);
    return here;
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (at::GradMode::is_enabled() && !recomputing()) gradients_->count_use(unit);
    return next(std::forward<Args>(args)...);
  }
  Tensors reduce(const Unit& unit, Tensors gradients) {
    return gradients_->move(unit, std::move(gradients));
  }
  void finish_gradients(const Masters&) {
    const InnerPhaseScope scope(InnerPhase::Offload);
    gradients_->finish();
  }
  void begin_step() noexcept {
    traffic_ = {};
    gradients_->begin_step();
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    folder_.check(values);
    memory_->check_process();
    check_window();
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    unit_memory_->free_unused();
    traffic_.gradients_out = gradients_->bytes, traffic_.copies_out = gradients_->copies;
    report.offloaded = traffic_;
  }
  void abort() noexcept {
    gradients_->abort();
    for (OfUnit& own : units_) copies_->wait_for_quietly(own.arrived), own.on_device.clear();
  }

 protected:
  /// The copies for one unit, on their way.
  struct OfUnit {
    Tensors on_device = {};
    bridge::StreamEvent arrived = {};
    std::vector<WeakTensor> last = {};  // the last copies, if they stay on the device
  };

  OfUnit begin_copies(const Tensors& masters) {
    memory_->check_process();
    OfUnit own;
    for (const at::Tensor& master : masters) {
      own.on_device.push_back(memory_like(master));
      copy_back(own.on_device.back(), master, own.arrived);
    }
    return own;
  }
  /// Returns memory on the device for a copy. If copies do not stay, and the device's allocator
  /// keeps no freed memory, it takes a buffer that is used again.
  at::Tensor memory_like(const at::Tensor& master) {
    const auto options =
        at::TensorOptions(copies_->device()).dtype(master.scalar_type()).requires_grad(false);
    if (Keeps || !copies_->device().is_cpu())
      return at::empty_strided(master.sizes(), master.strides(), options);
    const auto size = static_cast<std::int64_t>(master.storage().nbytes());
    std::shared_ptr<BufferPool::Buffer> buffer = unit_memory_->take(size);
    if (without_values())
      return bridge::FakeTensors(std::make_shared<CountedByPool>(std::move(buffer)))
          .make(master.sizes(), master.strides(), master.scalar_type(), at::kCPU);
    void* memory = buffer->bytes.mutable_data_ptr();
    return tensor_over(memory, master.sizes(), master.strides(), master.scalar_type(),
                       std::move(buffer));
  }
  void copy_back(const at::Tensor& here, const at::Tensor& master, bridge::StreamEvent& arrived) {
    memory_->populate_pages(master, /*writes=*/false);
    arrived = copies_->to_device(here, master);
    memory_->release_pages(master);
    traffic_.parameters_back += static_cast<std::int64_t>(master.nbytes());
    ++traffic_.copies_back;
  }
  std::optional<bridge::HostCopies> copies_;
  std::vector<OfUnit> units_;

 private:
  static constexpr bool is_file = names_folder<Policy>;

  /// Returns a copy in that memory.
  static at::Tensor stored(const at::Tensor& t, OffloadMemory& memory) {
    const at::NoGradGuard no_grad;
    const at::Tensor copy = memory.allocate(t.sizes(), t.strides(), t.scalar_type());
    copy.copy_(t);
    memory.release_pages(copy);
    return copy;
  }

  // These functions store the state of optimizers and averages in files.
  void reserve_state(const at::Tensor& like) override { state_memory_->reserve(like); }
  at::Tensor place_state(const at::Tensor& state) override { return stored(state, *state_memory_); }
  std::int64_t window_bytes() const override {
    if constexpr (is_file) return values.window_bytes;
    else return 0;
  }
  void begin_window(const Tensors& state) noexcept override {
    const InnerPhaseScope scope(InnerPhase::Offload);
    for (const at::Tensor& t : state) state_memory_->populate_pages(t, /*writes=*/true);
  }
  void end_window(const Tensors& state) noexcept override {
    const InnerPhaseScope scope(InnerPhase::Offload);
    for (const at::Tensor& t : state) state_memory_->release_pages(t);
  }
  void begin_use(const Tensors& tensors, bool writes) noexcept override {
    const InnerPhaseScope scope(InnerPhase::Offload);
    for (const at::Tensor& t : tensors) memory_->populate_pages(t, writes);
  }
  void end_use(const Tensors& tensors) noexcept override {
    const InnerPhaseScope scope(InnerPhase::Offload);
    for (const at::Tensor& t : tensors) memory_->release_pages(t);
  }
  at::Tensor place_gradient(const at::Tensor& gradient, std::size_t k) override {
    const InnerPhaseScope scope(InnerPhase::Offload);
    return gradients_->move(gradient, k);
  }
  void check_window() const {
    if constexpr (is_file)
      if (values.window_bytes < 1)
        throw BadValue("Offload<Disk>: window_bytes is " + std::to_string(values.window_bytes) +
                       "; write how many bytes of state an update uses at once, 1 or more.");
  }

  NamedFolder<Policy> folder_;
  std::shared_ptr<OffloadMemory> memory_;        // the memory of master weights and gradients
  std::shared_ptr<OffloadMemory> state_memory_;  // apart, since space is reserved in it
  std::shared_ptr<BufferPool> unit_memory_;      // memory of copies on the device
  std::optional<MovedGradients> gradients_;
  OffloadTraffic traffic_;
};

/// The mechanism for policies whose copies stay on the device: only the master weights, gradients
/// and state are elsewhere.
template <class Policy>
class OffloadsState : public OffloadsMasters<Policy, /*Keeps=*/true> {
  using Base = OffloadsMasters<Policy, true>;

 public:
  using Base::Base;
  /// Writes to the memory of the last gather, and returns false if that no longer exists. Allocates
  /// nothing on a CPU.
  bool refresh(const Unit& unit, const Tensors& masters) {
    auto& own = this->units_[unit.index];
    if (own.last.size() != masters.size()) return false;
    for (const WeakTensor& last : own.last)
      if (const at::Tensor here = last.lock(); !here.defined() || is_away(here)) return false;
    for (std::size_t i = 0; i < masters.size(); ++i)
      this->copy_back(own.last[i].lock(), masters[i], own.arrived);
    return true;
  }
  void await_refresh(const Unit& unit) {
    this->copies_->wait_for(std::exchange(this->units_[unit.index].arrived, {}));
  }
};

}  // namespace ikebana::detail
