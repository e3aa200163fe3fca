#pragma once
// Defines all differences between LibTorch's versions, from 2.8 to the newest. No other file
// depends on the version, except an include of detail/torch.hpp.

#include <ikebana/detail/torch.hpp>
#include <type_traits>
#include <utility>

namespace ikebana::bridge {

/// The version of LibTorch that is compiled against, as 100 * major + minor: 211 is 2.11.
inline constexpr int libtorch_version = 100 * TORCH_VERSION_MAJOR + TORCH_VERSION_MINOR;
static_assert(libtorch_version >= 208,
              "ikebana: this LibTorch is too old. Use LibTorch 2.8 or newer.");

/// The pointer to a node of the autograd graph: deduced, because its type differs between versions.
using NodePointer = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

/// The dispatch key below autograd by which operators are intercepted. Only Python's FakeTensor
/// uses it, so a C++ program never does.
inline constexpr auto operator_key = c10::DispatchKey::Fake;

/// The dispatch key above autograd by which operators that draw random numbers are intercepted.
/// LibTorch has this key for its own tests, which it does not contain.
inline constexpr auto random_operator_key = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

/// The dispatch key above autograd at which products of 16 bits are intercepted. LibTorch has this
/// key for its own tests, which it does not contain.
inline constexpr auto products_key = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// True if LibTorch has getDeviceAllocator with statistics. Found by argument-dependent look-up, so
/// that it compiles with a LibTorch without the function.
template <class Type>
concept CountsDeviceMemory = requires(Type type) { getDeviceAllocator(type)->getDeviceStats(0); };

/// Returns an allocator that reports the memory of an accelerator. From 2.9 on LibTorch has one
/// interface for all accelerators; before, only CUDA's own, if CUDA's headers are installed. Throws
/// c10::Error or returns nullptr for a device without statistics. No symbol of c10_cuda is used,
/// only virtual functions.
template <CountsDeviceMemory Type>
auto* device_allocator(Type type) {
  return getDeviceAllocator(type);
}
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 9 && __has_include(<cuda_runtime_api.h>)
template <class Type>
auto* device_allocator(Type type) {
  using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;
  return type == c10::kCUDA ? static_cast<Allocator*>(c10::GetAllocator(type)) : nullptr;
}
#endif

/// True if this LibTorch reports the memory of accelerators, or of CUDA devices.
template <class Type>
concept ReportsDeviceMemory = requires(Type type) { device_allocator(type); };
inline constexpr bool has_device_statistics = ReportsDeviceMemory<c10::DeviceType>;

}  // namespace ikebana::bridge
