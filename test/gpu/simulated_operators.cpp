// Runs every operator on the simulated accelerator by the CPU's kernels.
#include "simulated_operators.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>
#include <unordered_set>

#include "simulated_generator.hpp"

namespace simulated {

namespace {

using Names = std::unordered_set<std::string>;

/// These operators copy a number or a shape to the host on CUDA.
const Names waiting = {"aten::_local_scalar_dense",
                       "aten::nonzero",
                       "aten::masked_select",
                       "aten::_unique",
                       "aten::_unique2",
                       "aten::unique_dim",
                       "aten::unique_consecutive",
                       "aten::unique_dim_consecutive",
                       "aten::bincount",
                       "aten::equal",
                       "aten::multinomial",
                       "aten::_ctc_loss",
                       "aten::embedding_renorm_",
                       "aten::_linalg_check_errors"};
/// These operators take indices of the host on CUDA, and wait if they are masks.
const Names indexing = {"aten::index", "aten::index_put", "aten::index_put_",
                        "aten::_index_put_impl_", "aten::_unsafe_index"};

/// These operators take a number of the host on CUDA, as pointwise operators do.
const Names numbers = {"aten::fill_",      "aten::masked_fill", "aten::masked_fill_",
                       "aten::index_fill", "aten::index_fill_", "aten::where"};

bool is_mask(const at::Tensor& index) {
  return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
}

}  // namespace

namespace {

void compute(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  op.redispatchBoxed(c10::DispatchKeySet(key), &stack);
}

}  // namespace

Call::Call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DispatchKey key)
    : op_(op),
      stack_(stack),
      count_(op.schema().arguments().size()),
      begin_(stack.size() - count_),
      device_(find_device()),
      stream_(current_stream(device_.index())),
      key_(key) {}

template <class F>
void Call::each_tensor(F&& f) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto& value = argument(i);
    if (value.isTensor()) f(i, value.toTensor());
    if (!value.isList()) continue;
    for (const c10::IValue& element : value.toListRef())
      if (element.isTensor()) f(i, element.toTensor());
  }
}

/// Returns the device of the first tensor on a device, as ATen's kernels for CUDA choose it.
c10::Device Call::find_device() const {
  std::optional<c10::Device> found;
  each_tensor([&](std::size_t, const at::Tensor& t) {
    if (!found && t.defined() && t.is_privateuseone()) found = t.device();
  });
  for (std::size_t i = 0; i < count_ && !found; ++i)
    if (argument(i).isDevice() && argument(i).toDevice().has_index())
      found = argument(i).toDevice();
  return found.value_or(device(current_device()));
}

bool Call::writes(std::size_t i) const {
  const auto& argument = op_.schema().arguments()[i];
  const auto* alias = argument.alias_info();
  // The schema of some forms of batch norm does not say that they write their statistics.
  const bool is_statistic = argument.name().starts_with("running_") &&
                            op_.schema().name().find("backward") == std::string::npos;
  return is_statistic || (alias && alias->isWrite());
}

bool Call::takes_host_tensor(std::size_t i, const at::Tensor& t) const {
  const auto& schema = op_.schema();
  const bool indexes = indexing.contains(schema.name());
  if (indexes && schema.arguments()[i].name() == "indices") return true;
  if (t.dim() != 0 || writes(i) || argument(i).isList()) return false;
  return indexes || numbers.contains(schema.name()) || op_.hasTag(at::Tag::pointwise) ||
         schema.arguments()[i].name() == "lr";
}

void Call::check_devices() const {
  each_tensor([&](std::size_t i, const at::Tensor& t) {
    if (!t.defined() || t.device() == device_) return;
    TORCH_CHECK(t.is_cpu() && takes_host_tensor(i, t),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                device_, " and ", t.device(), "! (when checking argument ",
                op_.schema().arguments()[i].name(), " of ", op_.schema().name(), ')');
  });
}

bool Call::waits() const {
  const auto& name = op_.schema().name();
  if (waiting.contains(name)) return true;
  if (name == "aten::repeat_interleave") return argument(count_ - 1).isNone();
  bool mask = false;
  if (indexing.contains(name))
    each_tensor([&](std::size_t i, const at::Tensor& t) { mask |= i == 1 && is_mask(t); });
  return mask;
}

Uses Call::uses() const {
  Uses uses;
  each_tensor([&](std::size_t i, const at::Tensor& t) {
    (writes(i) ? uses.writes : uses.reads).push_back(t);
  });
  return uses;
}

c10::IValue Call::to_host(const c10::IValue& value) {
  if (value.isTensor()) return aliases_.of(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(aliases_.of(t));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const auto& t : value.toOptionalTensorVector())
    list.push_back(t ? std::optional(aliases_.of(*t)) : std::nullopt);
  return list;
}

void Call::to_host() {
  for (std::size_t i = 0; i < count_; ++i) {
    auto& value = argument(i);
    if (op_.schema().arguments()[i].name() != "generator") value = to_host(value);
    else value = engine_of(value.toOptional<at::Generator>(), device_.index());
  }
}

c10::IValue Call::to_device(const c10::IValue& value) {
  if (value.isTensor()) return aliases_.back(value.toTensor(), device_);
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& t : value.toTensorVector()) list.push_back(aliases_.back(t, device_));
  return list;
}

void Call::run() {
  const c10::DeviceGuard guard(device_);
  check_devices();
  const bool host_waits = waits();
  if (host_waits) check_sync();
  if (host_waits) refuse_in_capture(device_.index(), op_.schema().name().c_str());
  std::vector<c10::IValue> given;
  {
    const Lock lock(state().mutex);
    begin(stream_, uses(), op_.schema().name().c_str());
    if (host_waits) state().streams.wait(stream_);
    to_host();
    if (capture_of(stream_))
      given.assign(stack_.end() - static_cast<std::ptrdiff_t>(count_), stack_.end());
  }
  compute(op_, key_, stack_);
  const Lock lock(state().mutex);
  const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(op_.schema().returns().size());
  const std::vector<c10::IValue> computed(begin, stack_.end());
  aliases_.keep_changes();
  for (auto value = begin; value != stack_.end(); ++value) *value = to_device(*value);
  if (Captured* capture = capture_of(stream_)) capture->add(again(std::move(given), computed));
}

namespace {

/// Calls `f` with each tensor of some results.
template <class F>
void each_result(c10::ArrayRef<c10::IValue> results, F&& f) {
  for (const c10::IValue& value : results) {
    if (value.isTensor()) f(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& t : value.toTensorVector()) f(t);
  }
}

}  // namespace

std::function<void()> Call::again(std::vector<c10::IValue> given,
                                  const std::vector<c10::IValue>& computed) {
  struct Place {
    char* bytes;
    std::size_t size;
  };
  std::vector<std::optional<Place>> places;  // for results that are neither arguments nor views
  each_result(computed, [&](const at::Tensor& t) {
    auto& place = places.emplace_back();
    if (!t.defined() || !t.has_storage() || !aliases_.is_new(t)) return;
    const auto& there = aliases_.device_storage(t, device_);
    if (there.nbytes() != 0) place = {state().memory.bytes(there.data()), there.nbytes()};
  });
  return [op = op_, key = key_, given = std::move(given), places = std::move(places),
          grad = at::GradMode::is_enabled()] {
    const at::AutoGradMode mode(grad);
    torch::jit::Stack stack = given;
    compute(op, key, stack);
    std::size_t i = 0;
    each_result(stack, [&](const at::Tensor& t) {
      const auto& place = places.at(i++);
      if (!place) return;
      TORCH_CHECK(t.storage().nbytes() == place->size, "simulated: ", op.schema().name(),
                  " of a graph returns another size");
      std::memcpy(place->bytes, t.storage().data(), place->size);
    });
  };
}

namespace {

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, *stack, c10::DispatchKey::CPU).run();
}

void run_sparse_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, *stack, c10::DispatchKey::SparseCPU).run();
}

/// Returns whether LibTorch has the operator both for any device, made of others, and for the CPU,
/// with other bits.
bool hides_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKey cpu) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(cpu) &&
         (op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
          op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd));
}

/// Registers `kernel` for every operator that has no other kernel on the device's `key`, and for
/// every operator whose CPU kernel, under `cpu`, would be hidden.
template <c10::BoxedKernel::BoxedKernelFunction* kernel>
void register_all(c10::DispatchKey key, c10::DispatchKey cpu) {
  using torch::CppFunction, torch::Library;
  static Library all(Library::IMPL, "_", key, __FILE__, __LINE__);
  all.fallback(CppFunction::makeFromBoxedFunction<kernel>());
  static Library some(Library::IMPL, "aten", key, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.name.starts_with("aten::") && op && hides_cpu_kernel(*op, cpu))
      some.impl(toString(name).c_str(), CppFunction::makeFromBoxedFunction<kernel>());
  }
}

}  // namespace

void register_operators() {
  register_all<&run_on_host>(c10::DispatchKey::PrivateUse1, c10::DispatchKey::CPU);
  register_all<&run_sparse_on_host>(c10::DispatchKey::SparsePrivateUse1,
                                    c10::DispatchKey::SparseCPU);
  // On accelerators LibTorch leaves these to the device; its own for the CPU choose among many.
  static torch::Library convolutions(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1,
                                     __FILE__, __LINE__);
  for (const char* name : {"convolution", "convolution_backward"})
    convolutions.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

}  // namespace simulated
