#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <new>

namespace ikebana::detail {

IKEBANA_INLINE std::string message_of(const c10::Error& error) {
  std::string what = error.what_without_backtrace();
  return what.substr(0, what.find(" This could be because"));
}

IKEBANA_INLINE std::string text_of_libtorch(const std::exception& error) {
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) return message_of(*torch);
  if (dynamic_cast<const std::bad_alloc*>(&error)) return error.what();
#if __has_include(<oneapi/dnnl/dnnl_common.hpp>)
  if (const auto* dnnl = dynamic_cast<const dnnl::error*>(&error))
    return std::string("oneDNN ") + dnnl->message +
           (dnnl->status == dnnl_out_of_memory ? ": not enough memory" : "");
#endif
  return {};
}

IKEBANA_INLINE std::string text_of(const std::exception& error) {
  const std::string text = text_of_libtorch(error);
  return text.empty() ? error.what() : text;
}

IKEBANA_INLINE bool is_out_of_memory(const std::string& what) {
  for (const char* phrase : {"out of memory", "not enough memory", "allocate memory", "bad_alloc"})
    if (what.find(phrase) != std::string::npos) return true;
  return false;
}

IKEBANA_INLINE std::string no_code_text(const std::string& what) {
  if (what.find("could not create a primitive") == std::string::npos) return {};
  return " oneDNN makes code for each size that is new; where it had no memory for that once, it "
         "makes none on this thread any more: start the process again, with more memory, or with "
         "as many microbatches as it needs, by Accumulate<N>.";
}

}  // namespace ikebana::detail
