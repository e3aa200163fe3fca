#pragma once
// Writes numbers for people.
#include <string>

namespace ikebana::detail {

/// Writes a number with this many decimals.
std::string fixed(double value, int decimals);
/// Writes a number with about four digits and without an exponent: `0.1234`, `12.34`, `12340`.
std::string rounded(double value);
/// Writes a number as `12.3 k`, `4.56 M`, `7.89 G` or `1.23 T`, with the blank also if there is no
/// letter, so that a unit may follow: `12.3 G` + `FLOP/s`.
std::string short_number(double value);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/short_number.ipp>
#endif
