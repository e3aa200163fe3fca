#pragma once
// Prepares texts from outside the program for HTML and SVG.
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Returns the characters of a text in UTF-8. Bytes that are no UTF-8, and characters that XML does
/// not allow, become U+FFFD, the sign of a character that is not known.
std::u32string characters_of(std::string_view text);
/// Returns the text of characters in UTF-8.
std::string utf8_of(std::u32string_view characters);

/// Returns a text as the content or an attribute of an element: `&lt;` for `<`.
std::string xml_text(std::string_view text);

/// Returns the columns that a text takes in a font of equal widths: two for an ideograph.
std::size_t text_columns(std::string_view text);
/// Returns a text of at most so many columns: of a longer one its middle is left out, since names
/// differ at their ends.
std::string shortened(std::string_view text, std::size_t columns);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/xml_text.ipp>
#endif
