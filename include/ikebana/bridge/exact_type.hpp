#pragma once
// Recognises objects that another library of the process made. Several libraries may each contain
// this code, with hidden symbols and their own statics. What must exist only once is therefore
// looked up in LibTorch, which exists once, and recognised by the name of its type.
#include <cstring>
#include <typeinfo>

namespace ikebana::bridge {

/// Returns true if `object` is exactly a T, also one that another library made. T's name carries a
/// version, which changes whenever T's layout or virtual functions change, so that two versions
/// never mix.
template <class T, class Base>
bool is_exactly(const Base& object) noexcept {
  return std::strcmp(typeid(object).name(), typeid(T).name()) == 0;
}

}  // namespace ikebana::bridge
