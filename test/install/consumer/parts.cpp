// Uses components of the installed package: reads a tokenizer, which calls PCRE2, and an image,
// which calls libpng, and expects an error of each.
#include <ikebana/images/decode.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>
#include <iostream>

template <class F>
bool fails(const F& f) {
  try {
    f();
  } catch (const ikebana::BadFile& error) {
    return std::cout << error.what() << '\n', true;
  }
  return false;
}

int main() {
  const bool ok = fails([] { ikebana::Tokenizer::from_str("{}"); }) &&
                  fails([] { ikebana::images::decode(std::string_view("\x89PNG\r\n\x1a\n")); });
  return ok ? 0 : 1;
}
