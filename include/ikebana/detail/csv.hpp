#pragma once
// Writes texts as fields of comma-separated values.
#include <string>

namespace ikebana::detail {

/// Returns a text in quotation marks; its own are doubled.
std::string csv_quoted(const std::string& text);
/// Returns a text, which is quoted if it has a comma, a quotation mark or a line break.
std::string csv_field(const std::string& text);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/csv.ipp>
#endif
