#pragma once
// Defines sentences with names of types, which are built while a refusal is compiled. As a template
// argument, g++ prints the finished text, and clang prints the sum of texts and names from which it
// was made.
#include <cstddef>

namespace ikebana::refuse {

/// A text of N - 1 characters and its final zero.
template <std::size_t N>
struct Sentence {
  char characters[N]{};

  constexpr Sentence() = default;
  constexpr Sentence(const char (&text)[N]) {
    for (std::size_t i = 0; i < N; ++i) characters[i] = text[i];
  }
};
template <class A, class B>  // two sentences, or one and a literal
constexpr auto operator+(const A& a, const B& b) {
  const Sentence first(a);
  const Sentence second(b);
  constexpr std::size_t start = sizeof first - 1;
  Sentence<start + sizeof second> sum;
  for (std::size_t i = 0; i < start; ++i) sum.characters[i] = first.characters[i];
  for (std::size_t i = 0; i < sizeof second; ++i) sum.characters[start + i] = second.characters[i];
  return sum;
}

constexpr bool starts_with(const char* text, const char* start) {
  while (*start != 0)
    if (*text++ != *start++) return false;
  return true;
}
/// If `from` begins with `start`, skips it.
constexpr bool skip(const char*& from, const char* start) {
  if (!starts_with(from, start)) return false;
  while (*start++ != 0) ++from;
  return true;
}
/// Writes the name of T unless `to` is null, and returns its length. Leaves out `ikebana::`, of an
/// axis or a hook also `axis::` or `hook::`, and the count Dynamic: `Every<>`. Writes `Fit<8>` for
/// `(FitCount)8`, as compilers print it.
template <class T>
constexpr int spell(char* to) {
  constexpr const char* dynamic = "-9223372036854775808";
  const char* from = __PRETTY_FUNCTION__;
  while (*from != '=') ++from;
  const bool is_short =
      starts_with(from, "= ikebana::axis::") || starts_with(from, "= ikebana::hook::");
  from += is_short ? 17 : 2;
  int length = 0;
  auto write = [&](char c) { to == nullptr ? c : to[length] = c, ++length; };
  while (from[1] != 0) {  // up to the bracket that closes the list of arguments
    if (skip(from, "(ikebana::FitCount)")) {
      for (const char* c = "Fit<"; *c != 0; ++c) write(*c);
      for (skip(from, dynamic); (*from >= '0' && *from <= '9') || *from == '-';) write(*from++);
      write('>');
    } else if (skip(from, dynamic)) {
      skip(from, "L");  // by clang++
    } else if (starts_with(from, " >")) {
      ++from;
    } else if (!skip(from, "ikebana::")) {
      write(*from++);
    }
  }
  return length;
}

/// The name of a type.
template <class T>
inline constexpr auto name = [] {
  Sentence<spell<T>(nullptr) + 1> text;
  spell<T>(text.characters);
  return text;
}();
/// The name of a type in backticks.
template <class T>
inline constexpr auto quoted = "`" + name<T> + "`";
/// The names of several types in backticks, with commas between them.
template <class First, class... Others>
inline constexpr auto list_of = (quoted<First> + ... + (", " + quoted<Others>));

/// The names of several types, with commas between them.
template <class First, class... Others>
inline constexpr auto names_of = (name<First> + ... + (", " + name<Others>));

}  // namespace ikebana::refuse
