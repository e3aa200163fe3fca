#pragma once
// Where LibTorch's versions differ, from 2.8 to the newest; nothing else in the library asks for a
// version.

#include <ikebana/detail/torch.hpp>
#include <type_traits>
#include <utility>

namespace ikebana::bridge {

/// The LibTorch that this is compiled against, as 100 * major + minor: 211 is 2.11.
inline constexpr int libtorch_version = 100 * TORCH_VERSION_MAJOR + TORCH_VERSION_MINOR;
static_assert(libtorch_version >= 208, "ikebana needs LibTorch 2.8 or newer");

/// What points at a node of the autograd graph: deduced, because LibTorch changes the kind of
/// pointer.
using NodePointer = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;

/// The dispatch key below autograd by which operators are seen: used by Python's FakeTensor alone,
/// and there for nothing that a C++ program does.
inline constexpr auto operator_key = c10::DispatchKey::Fake;

/// Found by argument-dependent look-up, so that a LibTorch without the function is no error.
template <class Type>
concept CountsDeviceMemory = requires(Type type) { getDeviceAllocator(type)->getDeviceStats(0); };

/// Whether LibTorch tells the memory of any accelerator through one interface (2.9 and newer).
inline constexpr bool has_device_statistics = CountsDeviceMemory<c10::DeviceType>;

}  // namespace ikebana::bridge
