#pragma once
// Reads which processors this process may use, and how this thread shares them with others.
#include <cstdint>
#include <string>

namespace ikebana::detail {

/// Returns the number of processors that this process may use at once, by its affinity mask and by
/// its control groups. `root` stands before the paths of groups, for tests.
std::int64_t usable_cores(const std::string& root = "");
/// Returns the seconds for which the calling thread could have run and had no processor, since it
/// began; 0 if the system does not count that.
double seconds_without_processor();
/// Returns the seconds for which the calling thread had a processor, since it began.
double seconds_on_processor();

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/process_use.ipp>
#endif
