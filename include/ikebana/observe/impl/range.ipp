#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_profiler.hpp>
#include <ikebana/observe/range.hpp>
#include <ikebana/observe/thread_ranges.hpp>
#include <ikebana/posix/process.hpp>

namespace ikebana {

namespace detail {

/// Returns a name as all files of a profile can have it: LibTorch does not quote it everywhere.
inline std::string name_in_traces(const char* name) {
  std::string text = name;
  for (char& c : text)
    if (c == '"') c = '\'';
    else if (c == '\\') c = '/';
    else if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

}  // namespace detail

IKEBANA_INLINE Range::Range(const char* name) {
#ifdef IKEBANA_HAS_NVTX
  nvtxRangePushA(name);
#endif
  if (auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE)) {
    record_.emplace(std::move(*callbacks));
    record_->before(detail::name_in_traces(name));
  }
  if (detail::ThreadRanges::get().is_open() && !torch::profiler::impl::profilerEnabled())
    name_ = detail::name_in_traces(name), start_ = c10::getTime();
}

IKEBANA_INLINE Range::~Range() {
#ifdef IKEBANA_HAS_NVTX
  nvtxRangePop();
#endif
  if (start_ == 0) return;
  try {
    detail::ThreadRanges::get().add({std::move(name_), start_, c10::getTime(),
                                     at::RecordFunction::currentThreadId(),
                                     detail::system_thread_id()});
  } catch (const std::bad_alloc&) {  // the range is not shown
  }
}

}  // namespace ikebana
