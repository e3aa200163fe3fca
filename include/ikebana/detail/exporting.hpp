#pragma once
// Defines a flag of a thread that records a forward which becomes a program of torch.export.
#include <cstdint>
#include <ikebana/detail/recording.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_exporting = false;
inline constinit thread_local std::uint64_t export_count = 0;

/// Returns true while this thread records a forward for `export_program`. Functions of this library
/// then compute by the operators of LibTorch that they equal, in a form that does not depend on
/// sizes.
inline bool exporting() noexcept { return is_exporting; }

/// Returns a number that each such forward of this thread has for itself; 0 outside of them. What a
/// function keeps for later calls belongs to one of them.
inline std::uint64_t export_number() noexcept { return is_exporting ? export_count : 0; }

/// RAII: this thread exports one forward, and so records, too.
struct ExportingScope : FlagScope {
  ExportingScope() : FlagScope(is_exporting) { ++export_count; }

 private:
  RecordingScope recording_;
};

}  // namespace ikebana::detail
