#pragma once
// The processor's instructions, as far as oneDNN uses them: for 16-bit numbers, and AVX-512; and
// its caches.
#include <cstdint>

namespace ikebana::detail {

/// The two kinds of 16-bit numbers: BF16 has FP32's range, FP16 more digits.
enum class HalfKind { BF16, FP16 };

/// Returns true if oneDNN's products may use instructions for such numbers: the processor has them,
/// and `ONEDNN_MAX_CPU_ISA` of the environment does not forbid them. On other processors than
/// x86-64, LibTorch decides.
bool has_half_instructions(HalfKind kind);

/// True if oneDNN may use AVX-512: the processor has it, and the environment does not forbid it.
bool has_avx512_kernels();

/// Returns the bytes of the processor's largest cache; 0 if they are not known.
std::int64_t largest_cache();

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/processor.ipp>
#endif
