#pragma once
// How much address space this process may use, and does.
#include <sys/resource.h>
#include <cstdint>
#include <string>

namespace ikebana::detail {

/// The bytes that are mapped into this process, used or not; 0 where /proc cannot be read.
std::int64_t mapped_bytes();

/// A sentence, after a space, on the limit of this process's address space (RLIMIT_AS), and on what
/// is in use; empty without such a limit.
std::string address_space_text();

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/address_space.ipp>
#endif
