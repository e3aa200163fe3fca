#pragma once
// Makes shared objects whose destructors are called through a pointer alone.
#include <memory>
#include <utility>

namespace ikebana::detail {

template <class T>
void destroy(const void* object) {
  delete static_cast<const T*>(object);
}

/// Does what std::make_shared does, in two allocations. g++ treats the destructor of each type that
/// a file gives to std::make_shared as a possible target of every release of a std::shared_ptr. It
/// optimizes the destructor and all that it calls, even if the program never makes such an object:
/// in the header-only form, a third of a small program's functions. Functions that are not
/// templates call this function instead.
template <class T, class... Args>
std::shared_ptr<T> make_shared_apart(Args&&... args) {
  T* const object = new T(std::forward<Args>(args)...);
  if constexpr (requires { object->weak_from_this(); })
    return std::shared_ptr<T>(object, &destroy<T>);
  else return {std::shared_ptr<const void>(object, &destroy<T>), object};
}

}  // namespace ikebana::detail
