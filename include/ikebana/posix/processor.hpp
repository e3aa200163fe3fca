#pragma once
// Finds the processor's instructions for 16-bit numbers.

namespace ikebana::detail {

/// The two kinds of 16-bit numbers: BF16 has FP32's range, FP16 more digits.
enum class HalfKind { BF16, FP16 };

/// Returns true if oneDNN's products may use instructions for such numbers: the processor has them,
/// and `ONEDNN_MAX_CPU_ISA` of the environment does not forbid them. On other processors than
/// x86-64, LibTorch decides.
bool has_half_instructions(HalfKind kind);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/processor.ipp>
#endif
