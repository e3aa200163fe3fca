// Defines kernels of the simulated accelerator's own: new tensors, views, copies.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/native_dropout_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstring>

#include "simulated_operators.hpp"

namespace simulated {

namespace {

constexpr int early_byte = 0xCD;

c10::Device device_of(const std::optional<c10::Device>& device, const std::optional<bool>& pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const bool given = device && device->has_index();
  return given ? *device : simulated::device(current_device());
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<c10::Device> device,
                 std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_of(device, pinned));
  return at::detail::empty_generic(size, c10::GetAllocator(c10::kPrivateUse1),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   at::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<c10::Device> device, std::optional<bool> pinned) {
  const c10::DeviceGuard guard(device_of(device, pinned));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(c10::kPrivateUse1),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           at::dtype_or_default(type));
}

struct NoMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t) override { return {nullptr, device(current_device())}; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

/// Zeros without memory, which backward formulas make.
at::Tensor zeros_without_memory(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                                std::optional<at::Layout>, std::optional<c10::Device> device,
                                std::optional<bool> pinned) {
  static auto& no_memory = *new NoMemory;
  const c10::DeviceGuard guard(device_of(device, pinned));
  const c10::DispatchKeySet keys{c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor};
  return at::detail::empty_generic(size, &no_memory, keys, at::dtype_or_default(type), {});
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data()) impl->set_sizes_and_strides(size, stride);
  else impl->set_sizes_contiguous(size);
  return self;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  const Lock lock(state().mutex);
  state().memory.record_stream(self.storage().data(), index_of(stream));
}

/// Module::to puts a device's tensor in the place of the host's, and the other way round.
bool is_compatible(const at::Tensor& self, const at::Tensor& from) {
  auto dense = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.is_cpu() || t.is_privateuseone());
  };
  return dense(self) && dense(from);
}

char* bytes_of(const at::Tensor& t) {
  auto* address = const_cast<void*>(t.const_data_ptr());
  return t.is_cpu() ? static_cast<char*>(address) : state().memory.bytes(address);
}

void copy_now(const at::Tensor& from, const at::Tensor& to) {
  Aliases aliases;
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  aliases.of(to).copy_(aliases.of(from));
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  const auto stream = current_stream(to.get_device());
  begin(stream, {.reads = {from}, .writes = {to}}, "copy_");
  copy_now(from, to);
  if (Captured* capture = capture_of(stream)) {
    Aliases aliases;
    capture->add([from = aliases.of(from), to = aliases.of(to)] {
      const at::AutoDispatchBelowADInplaceOrView no_autograd;
      to.copy_(from);
    });
  }
}

/// Copies as CUDA's copies between devices: the current streams of both wait for each other.
void copy_between_devices(const at::Tensor& from, const at::Tensor& to) {
  const auto a = current_stream(from.get_device()), b = current_stream(to.get_device());
  state().streams.join(a, b);
  begin(a, {.reads = {from}, .writes = {to}}, "copy_");
  copy_now(from, to);
  state().streams.join(a, b);
}

/// The copy is done when its stream gets to it; until then `to` holds no values.
void copy_later(const at::Tensor& from, const at::Tensor& to, StreamIndex stream) {
  auto& streams = state().streams;
  auto& memory = state().memory;
  const auto source = memory.find(from.const_data_ptr()), target = memory.find(to.const_data_ptr());
  if (target->queued) streams.drain(stream);
  streams.launch(stream);
  state().note_launch("copy_");
  streams.read(*source, stream, "copy_");
  streams.write(*target, stream, "copy_");
  char *a = bytes_of(from), *b = bytes_of(to);
  const auto size = to.nbytes();
  std::memset(b, early_byte, size);
  ++source->queued, ++target->queued;
  auto copy = [=, &memory] {
    std::memcpy(b, a, size);
    memory.copy_done(source);
    memory.copy_done(target);
  };
  streams.enqueue(stream, {.copy = std::move(copy), .reach = {}, .await = {}});
}

/// Copies between host and device, in the same dtype and layout. Pageable memory is copied at once,
/// as CUDA does: to the host after waiting for the stream, and to the device after taking the
/// bytes.
void copy_bytes(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool to_host = to.is_cpu();
  const auto stream = current_stream((to_host ? from : to).get_device());
  const bool pinned = (to_host ? to : from).is_pinned();
  if (non_blocking && pinned) return copy_later(from, to, stream);
  if (!non_blocking) check_sync();
  begin(stream, {.reads = {from}, .writes = {to}}, "copy_");
  std::memcpy(bytes_of(to), bytes_of(from), to.nbytes());
  if (!non_blocking || to_host) state().streams.wait(stream);
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.is_conj() != b.is_conj()) return false;
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         b.is_non_overlapping_and_dense();
}

/// Takes the steps of CUDA's copies: contiguous temporaries, pageable on the host, and conversions
/// on the device if the copy need not wait, or else on the host.
void copy_by_steps(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool converts_here = from.is_cpu() != non_blocking;
  const auto format = at::MemoryFormat::Contiguous;
  const auto type = converts_here ? to.scalar_type() : from.scalar_type();
  const bool keeps = to.is_contiguous() && to.scalar_type() == type;
  auto target = keeps ? to : at::empty_like(to, to.options().dtype(type), format);
  target.copy_(from.to(type).contiguous(), non_blocking);
  if (!keeps) to.copy_(target, non_blocking);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const auto from = self.expand_as(to);
  const c10::DeviceGuard guard(to.is_cpu() ? from.device() : to.device());
  const Lock lock(state().mutex);
  if (from.device() != to.device())
    refuse_in_capture((to.is_cpu() ? from : to).get_device(), "copy between memories");
  if (from.device() == to.device()) copy_on_device(from, to);
  else if (!from.is_cpu() && !to.is_cpu()) copy_between_devices(from, to);
  else if (same_layout(from, to)) copy_bytes(from, to, non_blocking);
  else copy_by_steps(from, to, non_blocking);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

}  // namespace

void register_kernels() {
  static torch::Library m(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                          __LINE__);
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(zeros_without_memory));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("native_dropout", TORCH_FN(at::native::native_dropout_cpu));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(is_compatible));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
}

}  // namespace simulated
