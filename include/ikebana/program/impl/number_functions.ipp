#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/number_functions.hpp>
#include <utility>

namespace ikebana::detail::pt2 {

using Numbers = c10::ArrayRef<c10::IValue>;

[[noreturn]] IKEBANA_INLINE void number_out_of_range() {
  throw BadBatch(
      "Program: a size that the graph computes does not fit into 64 bits. Use smaller inputs.");
}

IKEBANA_INLINE double real_of(const c10::IValue& value) {
  if (value.isInt()) return static_cast<double>(value.toInt());
  return value.isBool() ? (value.toBool() ? 1.0 : 0.0) : value.toDouble();
}
IKEBANA_INLINE std::int64_t whole_of(const c10::IValue& value) {
  return value.isBool() ? (value.toBool() ? 1 : 0) : value.toInt();
}
IKEBANA_INLINE bool is_whole(const c10::IValue& value) { return value.isInt() || value.isBool(); }
IKEBANA_INLINE bool truth_of(const c10::IValue& value) {
  return value.isDouble() ? value.toDouble() != 0 : whole_of(value) != 0;
}

/// Returns a real number as an integer, rounded towards zero.
IKEBANA_INLINE std::int64_t truncated(const c10::IValue& value) {
  if (is_whole(value)) return whole_of(value);
  const double real = std::trunc(value.toDouble());
  if (!(real >= -0x1p63 && real < 0x1p63)) number_out_of_range();
  return static_cast<std::int64_t>(real);
}

/// Returns the results of Python's `//` and `%`, whose quotient is rounded down.
IKEBANA_INLINE std::pair<std::int64_t, std::int64_t> divided(std::int64_t a, std::int64_t b) {
  if (b == 0) throw BadBatch("Program: the graph divides a size by 0. Use other inputs.");
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) number_out_of_range();
  std::int64_t quotient = a / b, rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) --quotient, rest += b;
  return {quotient, rest};
}

template <class Whole, class Real>
c10::IValue computed(Numbers n, Whole&& whole, Real&& real) {
  if (is_whole(n[0]) && is_whole(n[1])) {
    std::int64_t result = 0;
    if (whole(whole_of(n[0]), whole_of(n[1]), &result)) number_out_of_range();
    return result;
  }
  return real(real_of(n[0]), real_of(n[1]));
}

template <class Compare>
bool compared(Numbers n, Compare&& compare) {
  if (is_whole(n[0]) && is_whole(n[1])) return compare(whole_of(n[0]), whole_of(n[1]));
  return compare(real_of(n[0]), real_of(n[1]));
}

IKEBANA_INLINE c10::IValue power(Numbers n) {
  if (!is_whole(n[0]) || !is_whole(n[1]) || whole_of(n[1]) < 0)
    return std::pow(real_of(n[0]), real_of(n[1]));
  std::int64_t base = whole_of(n[0]), result = 1;
  for (std::int64_t left = whole_of(n[1]); left > 0; left /= 2) {
    if (left % 2 == 1 && __builtin_mul_overflow(result, base, &result)) number_out_of_range();
    if (left > 1 && __builtin_mul_overflow(base, base, &base)) number_out_of_range();
  }
  return result;
}

IKEBANA_INLINE c10::IValue shifted(Numbers n, bool left) {
  const std::int64_t value = n[0].toInt(), by = n[1].toInt();
  if (by < 0 || by > 62 ||
      (left && (value < 0 || value > (std::numeric_limits<std::int64_t>::max() >> by))))
    number_out_of_range();
  return left ? value << by : value >> by;
}

IKEBANA_INLINE c10::IValue added(Numbers n) {
  return computed(
      n, [](auto a, auto b, auto* r) { return __builtin_add_overflow(a, b, r); },
      [](double a, double b) { return a + b; });
}
IKEBANA_INLINE c10::IValue subtracted(Numbers n) {
  return computed(
      n, [](auto a, auto b, auto* r) { return __builtin_sub_overflow(a, b, r); },
      [](double a, double b) { return a - b; });
}
IKEBANA_INLINE c10::IValue multiplied(Numbers n) {
  return computed(
      n, [](auto a, auto b, auto* r) { return __builtin_mul_overflow(a, b, r); },
      [](double a, double b) { return a * b; });
}
IKEBANA_INLINE c10::IValue floor_divided(Numbers n) {
  return computed(
      n, [](auto a, auto b, auto* r) { return *r = divided(a, b).first, false; },
      [](double a, double b) { return std::floor(a / b); });
}
IKEBANA_INLINE c10::IValue remainder_of(Numbers n) {
  return computed(
      n, [](auto a, auto b, auto* r) { return *r = divided(a, b).second, false; },
      [](double a, double b) { return a - std::floor(a / b) * b; });
}
IKEBANA_INLINE c10::IValue negated(Numbers n) {
  if (n[0].isDouble()) return -n[0].toDouble();
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, whole_of(n[0]), &result)) number_out_of_range();
  return result;
}
IKEBANA_INLINE bool less(Numbers n) {
  return compared(n, [](auto a, auto b) { return a < b; });
}
IKEBANA_INLINE bool less_or_equal(Numbers n) {
  return compared(n, [](auto a, auto b) { return a <= b; });
}
IKEBANA_INLINE bool equal(Numbers n) {
  return compared(n, [](auto a, auto b) { return a == b; });
}

/// The name of a function in Python's module `operator`, or after `torch.`.
struct NamedNumberFunction {
  std::string_view name;
  KnownNumberFunction known;
};

IKEBANA_INLINE c10::ArrayRef<NamedNumberFunction> number_functions() {
  using c10::IValue;
  static const NamedNumberFunction all[] = {
      {"add", {added, 2}},
      {"sub", {subtracted, 2}},
      {"mul", {multiplied, 2}},
      {"floordiv", {floor_divided, 2}},
      {"mod", {remainder_of, 2}},
      {"truediv", {[](Numbers n) -> IValue { return real_of(n[0]) / real_of(n[1]); }, 2}},
      {"pow", {power, 2}},
      {"lshift", {[](Numbers n) { return shifted(n, true); }, 2}},
      {"rshift", {[](Numbers n) { return shifted(n, false); }, 2}},
      {"neg", {negated, 1}},
      {"pos", {[](Numbers n) { return n[0]; }, 1}},
      {"eq", {[](Numbers n) -> IValue { return equal(n); }, 2}},
      {"ne", {[](Numbers n) -> IValue { return !equal(n); }, 2}},
      {"lt", {[](Numbers n) -> IValue { return less(n); }, 2}},
      {"le", {[](Numbers n) -> IValue { return less_or_equal(n); }, 2}},
      {"gt", {[](Numbers n) -> IValue { return !less_or_equal(n); }, 2}},
      {"ge", {[](Numbers n) -> IValue { return !less(n); }, 2}},
      {"and_", {[](Numbers n) -> IValue { return truth_of(n[0]) && truth_of(n[1]); }, 2}},
      {"or_", {[](Numbers n) -> IValue { return truth_of(n[0]) || truth_of(n[1]); }, 2}},
      {"sym_max", {[](Numbers n) { return less(n) ? n[1] : n[0]; }, 2}},
      {"sym_min", {[](Numbers n) { return less_or_equal(n) ? n[0] : n[1]; }, 2}},
      {"sym_not", {[](Numbers n) -> IValue { return !truth_of(n[0]); }, 1}},
      {"sym_int", {[](Numbers n) -> IValue { return truncated(n[0]); }, 1}},
      {"trunc", {[](Numbers n) -> IValue { return truncated(n[0]); }, 1}},
      {"sym_float", {[](Numbers n) -> IValue { return real_of(n[0]); }, 1}},
      {"sym_ite", {[](Numbers n) { return truth_of(n[0]) ? n[1] : n[2]; }, 3}},
      {"sym_sqrt", {[](Numbers n) -> IValue { return std::sqrt(real_of(n[0])); }, 1}},
      {"_sym_sqrt", {[](Numbers n) -> IValue { return std::sqrt(real_of(n[0])); }, 1}},
  };
  return all;
}

IKEBANA_INLINE std::optional<KnownNumberFunction> number_function(std::string_view target) {
  const std::size_t dot = target.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view module = target.substr(0, dot), name = target.substr(dot + 1);
  if (module != "_operator" && module != "operator" && module != "torch" && module != "math")
    return {};
  for (const NamedNumberFunction& one : number_functions())
    if (one.name == name) return one.known;
  return {};
}

}  // namespace ikebana::detail::pt2
