// Defines the generators of the simulated accelerator, and what LibTorch asks of an accelerator.
#include "simulated_state.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "simulated_generator.hpp"

namespace simulated {

namespace {

/// Bytes behind the CPU generator's own: a state of the CPU must not pass for one of the device.
constexpr char state_mark[] = "simulated-state";

at::Tensor marked(const at::Tensor& state) {
  auto result =
      at::empty({state.numel() + static_cast<std::int64_t>(sizeof state_mark)}, at::kByte);
  auto* bytes = result.mutable_data_ptr<std::uint8_t>();
  std::memcpy(bytes, state.const_data_ptr(), state.nbytes());
  std::memcpy(bytes + state.nbytes(), state_mark, sizeof state_mark);
  return result;
}

at::Tensor unmarked(const at::Tensor& state) {
  const auto size = state.numel() - static_cast<std::int64_t>(sizeof state_mark);
  TORCH_CHECK(state.device().is_cpu() && state.scalar_type() == at::kByte,
              "RNG state must be a torch.ByteTensor");
  TORCH_CHECK(
      size > 0 && std::memcmp(static_cast<const std::uint8_t*>(state.const_data_ptr()) + size,
                              state_mark, sizeof state_mark) == 0,
      "RNG state is wrong size");
  return at::from_blob(const_cast<void*>(state.const_data_ptr()), {size}, at::kByte).clone();
}

}  // namespace

Generator::Generator(c10::DeviceIndex index, at::Generator engine)
    : GeneratorImpl(simulated::device(index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      engine_(std::move(engine)) {}

void Generator::set_current_seed(std::uint64_t seed) {
  refuse_in_capture(device_.index(), "the seed of a generator");
  engine_.set_current_seed(seed);
}
std::uint64_t Generator::current_seed() const {
  refuse_in_capture(device_.index(), "the seed of a generator");
  return engine_.current_seed();
}
std::uint64_t Generator::seed() { return engine_.seed(); }
void Generator::set_offset(std::uint64_t) { TORCH_CHECK(false, "simulated: no offsets"); }
std::uint64_t Generator::get_offset() const { TORCH_CHECK(false, "simulated: no offsets"); }
void Generator::set_state(const c10::TensorImpl& state) {
  refuse_in_capture(device_.index(), "the state of a generator");
  const auto copy = state.shallow_copy_and_detach(c10::VariableVersion(0), false);
  engine_.set_state(unmarked(at::Tensor(copy)));
}
c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  refuse_in_capture(device_.index(), "the state of a generator");
  return marked(engine_.get_state()).getIntrusivePtr();
}
Generator* Generator::clone_impl() const { return new Generator(device_.index(), engine_.clone()); }

at::Generator& default_generator(int device) {
  static auto& generators = *new std::vector<at::Generator>;
  static std::once_flag once;
  std::call_once(once, [&] {
    for (c10::DeviceIndex i = 0; i < devices; ++i)
      generators.push_back(at::make_generator<Generator>(
          i, at::detail::createCPUGenerator(c10::default_rng_seed_val)));
  });
  return generators.at(static_cast<std::size_t>(device));
}

at::Generator engine_of(const std::optional<at::Generator>& generator, int device) {
  const auto& chosen = generator && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(chosen.device() == simulated::device(device), "Expected a '",
              simulated::device(device), "' device for generator but found '", chosen.device(),
              "'");
  return chosen.get<Generator>()->engine();
}

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index < 0 ? current_device() : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    const auto on = static_cast<c10::DeviceIndex>(index < 0 ? current_device() : index);
    return at::make_generator<Generator>(on, at::detail::createCPUGenerator());
  }
  c10::Device getDeviceFromPtr(void* data) const override {
    const Lock lock(state().mutex);
    const auto block = state().memory.find(data);
    TORCH_CHECK(block && !block->on_host(), "simulated: not a pointer of a device");
    return device(block->device);
  }
  bool isPinnedPtr(const void* data) const override {
    const Lock lock(state().mutex);
    const auto block = state().memory.find(data);
    return block && block->on_host() && !block->freed;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return at::getHostAllocator(c10::kPrivateUse1);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    const Lock lock(state().mutex);
    auto& impl = *storage.unsafeGetStorageImpl();
    auto data = state().memory.allocate(bytes, impl.device());
    const auto kept = std::min(bytes, impl.nbytes());
    if (kept) impl.allocator()->copy_data(data.get(), impl.data(), kept);
    impl.set_data_ptr(std::move(data));
    impl.set_nbytes(bytes);
  }
  c10::DeviceIndex deviceCount() const override { return devices; }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override { exchangeDevice(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto* guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    return guard->exchangeDevice(device(index)).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
};

}  // namespace

void register_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("simulated");
  at::globalContext().lazyInitDevice(c10::kPrivateUse1);
}

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_memory();
    register_guard();
    register_hooks();
    register_operators();
    register_kernels();
    register_rnn();
    register_autocast();
    register_graphs();
  });
}

}  // namespace simulated
