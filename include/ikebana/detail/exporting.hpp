#pragma once
// A flag of a thread that records a forward which becomes a program of torch.export.
#include <ikebana/detail/recording.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_exporting = false;

/// Returns true while this thread records a forward for `export_program`. Functions of this library
/// then compute by the operators of LibTorch that they equal, in a form that does not depend on
/// sizes.
inline bool exporting() noexcept { return is_exporting; }

/// RAII: this thread exports, and so records, too.
struct ExportingScope : FlagScope {
  ExportingScope() : FlagScope(is_exporting) {}

 private:
  RecordingScope recording_;
};

}  // namespace ikebana::detail
