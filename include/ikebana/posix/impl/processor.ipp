#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/processor.hpp>
#include <initializer_list>
#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ikebana::detail {

/// Returns true if `ONEDNN_MAX_CPU_ISA` of the environment is one of these.
inline bool is_limited_to(std::initializer_list<std::string_view> isas) {
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const char* value = std::getenv(name))
      for (const std::string_view isa : isas)
        if (isa == value) return true;
  return false;
}

IKEBANA_INLINE bool has_half_instructions(HalfKind kind) {
#if defined(__x86_64__)
  if (is_limited_to({"AVX512_CORE", "AVX512_CORE_VNNI", "AVX2_VNNI", "AVX2", "AVX", "SSE41"}))
    return false;
  if (kind == HalfKind::FP16 && is_limited_to({"AVX512_CORE_BF16"})) return false;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool avx512_fp16 = (d >> 23 & 1) != 0, amx_bf16 = (d >> 22 & 1) != 0;
  if (a < 1 || __get_cpuid_count(7, 1, &a, &b, &c, &d) == 0) a = 0, d = 0;
  const bool avx512_bf16 = (a >> 5 & 1) != 0, amx_fp16 = (a >> 21 & 1) != 0;
  const bool avx_ne_convert = (d >> 5 & 1) != 0;
  return avx_ne_convert ||
         (kind == HalfKind::BF16 ? avx512_bf16 || amx_bf16 : avx512_fp16 || amx_fp16);
#else
  return kind == HalfKind::BF16 || kind == HalfKind::FP16;
#endif
}

IKEBANA_INLINE bool has_avx512_kernels() {
#if defined(__x86_64__)
  static const bool has = (__builtin_cpu_init(), __builtin_cpu_supports("avx512bw") != 0) &&
                          !is_limited_to({"AVX2_VNNI_2", "AVX2_VNNI", "AVX2", "AVX", "SSE41"});
  return has;
#else
  return false;
#endif
}

IKEBANA_INLINE std::int64_t largest_cache() {
  std::int64_t largest = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE})
    largest = std::max(largest, static_cast<std::int64_t>(::sysconf(name)));
#endif
  return largest;
}

}  // namespace ikebana::detail
