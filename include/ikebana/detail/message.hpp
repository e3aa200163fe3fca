#pragma once
// LibTorch's errors as this library reports them.
#include <ikebana/detail/torch.hpp>
#include <string>

namespace ikebana::detail {

/// The text of an error of LibTorch, without the backtrace and without the table of backends that
/// its dispatcher appends.
inline std::string message_of(const c10::Error& error) {
  std::string what = error.what_without_backtrace();
  return what.substr(0, what.find(" This could be because"));
}
/// True where the text of an error says that memory could not be allocated.
inline bool is_out_of_memory(const std::string& what) {
  for (const char* phrase : {"out of memory", "not enough memory", "allocate memory", "bad_alloc"})
    if (what.find(phrase) != std::string::npos) return true;
  return false;
}

}  // namespace ikebana::detail
