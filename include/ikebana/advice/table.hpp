#pragma once
// An estimate as a text, as CSV and as JSON.
#include <ikebana/advice/result.hpp>
#include <ostream>

namespace ikebana {

namespace detail {

/// The kinds of memory, in the order of the table.
std::vector<std::pair<const char*, std::int64_t>> kinds(const Estimate& e);
/// `activations` as `activations`, `gathered copies` as `gathered_copies`.
std::string identifier(std::string name);

std::string per_parameter(std::int64_t bytes, std::int64_t elements);

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const Estimate& estimate);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/table.ipp>
#endif
