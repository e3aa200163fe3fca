// Makes CPU tensors that share the memory of the simulated accelerator's.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "simulated_operators.hpp"

namespace simulated {

namespace {

/// Memory of the current device, for a CPU kernel that resizes its result.
struct ResultAllocator final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    const Lock lock(state().mutex);
    auto data = state().memory.allocate(bytes, device(current_device()));
    const auto deleter = data.get_deleter();
    void* address = data.release_context();
    return {state().memory.bytes(address), address, deleter, c10::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

c10::Allocator* result_allocator() {
  static auto& allocator = *new ResultAllocator;
  return &allocator;
}

at::Tensor with_layout_of(const at::Tensor& like, c10::Storage storage, c10::DispatchKey key) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(key), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

void move_memory(c10::Storage& to, c10::Storage& from) {
  auto data = from.set_data_ptr(c10::DataPtr(nullptr, c10::kCPU));
  const auto deleter = data.get_deleter();
  void* address = data.release_context();
  to.set_data_ptr_noswap({address, address, deleter, to.device()});
  to.set_nbytes(from.nbytes());
}

}  // namespace

const c10::Storage& Aliases::host_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  for (const auto& known : storages_)
    if (known.device.is_alias_of(storage)) return known.host;
  char* bytes = state().memory.bytes(storage.data());
  c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(),
                    c10::DataPtr(bytes, c10::kCPU), result_allocator(), storage.resizable());
  storages_.push_back({storage, std::move(host), bytes});
  return storages_.back().host;
}

at::Tensor Aliases::of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  for (const auto& pair : tensors_)
    if (pair.device.is_same(tensor)) return pair.host;
  TORCH_CHECK(tensor.is_sparse() || tensor.has_storage(), "simulated: no ", tensor.layout(),
              " tensors");
  auto host = tensor.is_sparse()
                  ? of_sparse(tensor)
                  : with_layout_of(tensor, host_storage(tensor), c10::DispatchKey::CPU);
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  tensors_.push_back({tensor, host});
  return host;
}

const c10::Storage& Aliases::device_storage(const at::Tensor& result, c10::Device on) {
  const auto& host = result.storage();
  for (const auto& known : storages_)
    if (known.host.is_alias_of(host)) return known.device;
  auto data = state().memory.allocate(host.nbytes(), on);
  if (host.nbytes()) std::memcpy(state().memory.bytes(data.get()), host.data(), host.nbytes());
  c10::Storage storage(c10::Storage::use_byte_size_t(), host.nbytes(), std::move(data),
                       c10::GetAllocator(c10::kPrivateUse1), true);
  storages_.push_back({std::move(storage), host, host.data(), /*is_new=*/true});
  return storages_.back().device;
}

bool Aliases::is_new(const at::Tensor& result) const {
  for (const auto& known : storages_)
    if (known.host.is_alias_of(result.storage())) return known.is_new;
  return false;
}

at::Tensor Aliases::back(const at::Tensor& result, c10::Device on) {
  if (!result.defined() || !result.is_cpu()) return result;
  for (const auto& pair : tensors_)
    if (pair.host.is_same(result)) return pair.device;
  if (result.is_sparse()) return sparse_back(result, on);
  return with_layout_of(result, device_storage(result, on), c10::DispatchKey::PrivateUse1);
}

void Aliases::keep_changes() {
  for (auto& [device, host, bytes, is_new] : storages_) {
    if (host.data() == bytes) continue;
    move_memory(device, host);
    host.set_data_ptr(c10::DataPtr(state().memory.bytes(device.data()), c10::kCPU));
  }
  for (const auto& [device, host] : tensors_) {
    if (device.is_sparse()) {
      keep_sparse_changes(device, host);
      continue;
    }
    if (device.sizes() == host.sizes() && device.strides() == host.strides() &&
        device.storage_offset() == host.storage_offset())
      continue;
    device.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                        host.storage_offset());
  }
}

namespace {

std::vector<BlockPtr> blocks_of(const std::vector<at::Tensor>& tensors) {
  std::vector<BlockPtr> blocks;
  auto add = [&](const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return;
    if (auto block = state().memory.find(t.storage().data())) blocks.push_back(std::move(block));
  };
  for (const auto& t : tensors) {
    add(t);
    if (!t.defined() || !t.is_sparse()) continue;
    const auto [indices, values] = parts(t);
    add(indices), add(values);
  }
  return blocks;
}

}  // namespace

void begin(StreamIndex stream, const Uses& uses, const char* what) {
  auto& streams = state().streams;
  if (Captured* capture = capture_of(stream)) {
    for (const auto& block : blocks_of(uses.reads)) capture->note(block, /*writes=*/false);
    for (const auto& block : blocks_of(uses.writes)) capture->note(block, /*writes=*/true);
    return;
  }
  streams.drain(stream);
  streams.launch(stream);
  state().note_launch(what);
  for (const auto& block : blocks_of(uses.reads)) streams.read(*block, stream, what);
  for (const auto& block : blocks_of(uses.writes)) streams.write(*block, stream, what);
}

}  // namespace simulated
