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

/// A real number as a whole one, rounded towards zero.
IKEBANA_INLINE std::int64_t truncated(const c10::IValue& value) {
  if (is_whole(value)) return whole_of(value);
  const double real = std::trunc(value.toDouble());
  if (!(real >= -0x1p63 && real < 0x1p63)) number_out_of_range();
  return static_cast<std::int64_t>(real);
}

/// Python's `//` and `%`: the quotient is rounded down.
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

/// The functions of two numbers whose result has their type.
IKEBANA_INLINE std::optional<KnownNumberFunction> arithmetic(std::string_view name) {
  if (name == "add")
    return {{[](Numbers n) {
               return computed(
                   n, [](auto a, auto b, auto* r) { return __builtin_add_overflow(a, b, r); },
                   [](double a, double b) { return a + b; });
             },
             2}};
  if (name == "sub")
    return {{[](Numbers n) {
               return computed(
                   n, [](auto a, auto b, auto* r) { return __builtin_sub_overflow(a, b, r); },
                   [](double a, double b) { return a - b; });
             },
             2}};
  if (name == "mul")
    return {{[](Numbers n) {
               return computed(
                   n, [](auto a, auto b, auto* r) { return __builtin_mul_overflow(a, b, r); },
                   [](double a, double b) { return a * b; });
             },
             2}};
  if (name == "floordiv")
    return {{[](Numbers n) {
               return computed(
                   n, [](auto a, auto b, auto* r) { return *r = divided(a, b).first, false; },
                   [](double a, double b) { return std::floor(a / b); });
             },
             2}};
  if (name == "mod")
    return {{[](Numbers n) {
               return computed(
                   n, [](auto a, auto b, auto* r) { return *r = divided(a, b).second, false; },
                   [](double a, double b) { return a - std::floor(a / b) * b; });
             },
             2}};
  if (name == "truediv")
    return {{[](Numbers n) -> c10::IValue { return real_of(n[0]) / real_of(n[1]); }, 2}};
  if (name == "pow") return {{power, 2}};
  if (name == "lshift") return {{[](Numbers n) { return shifted(n, true); }, 2}};
  if (name == "rshift") return {{[](Numbers n) { return shifted(n, false); }, 2}};
  return {};
}

IKEBANA_INLINE std::optional<KnownNumberFunction> comparison(std::string_view name) {
  if (name == "eq")
    return {{[](Numbers n) -> c10::IValue {
               return compared(n, [](auto a, auto b) { return a == b; });
             },
             2}};
  if (name == "ne")
    return {{[](Numbers n) -> c10::IValue {
               return compared(n, [](auto a, auto b) { return a != b; });
             },
             2}};
  if (name == "lt")
    return {
        {[](Numbers n) -> c10::IValue { return compared(n, [](auto a, auto b) { return a < b; }); },
         2}};
  if (name == "le")
    return {{[](Numbers n) -> c10::IValue {
               return compared(n, [](auto a, auto b) { return a <= b; });
             },
             2}};
  if (name == "gt")
    return {
        {[](Numbers n) -> c10::IValue { return compared(n, [](auto a, auto b) { return a > b; }); },
         2}};
  if (name == "ge")
    return {{[](Numbers n) -> c10::IValue {
               return compared(n, [](auto a, auto b) { return a >= b; });
             },
             2}};
  if (name == "and_")
    return {{[](Numbers n) -> c10::IValue { return truth_of(n[0]) && truth_of(n[1]); }, 2}};
  if (name == "or_")
    return {{[](Numbers n) -> c10::IValue { return truth_of(n[0]) || truth_of(n[1]); }, 2}};
  return {};
}

/// torch.sym_max and others.
IKEBANA_INLINE std::optional<KnownNumberFunction> symbolic(std::string_view name) {
  if (name == "sym_max")
    return {
        {[](Numbers n) { return compared(n, [](auto a, auto b) { return a < b; }) ? n[1] : n[0]; },
         2}};
  if (name == "sym_min")
    return {
        {[](Numbers n) { return compared(n, [](auto a, auto b) { return b < a; }) ? n[1] : n[0]; },
         2}};
  if (name == "sym_not") return {{[](Numbers n) -> c10::IValue { return !truth_of(n[0]); }, 1}};
  if (name == "sym_int") return {{[](Numbers n) -> c10::IValue { return truncated(n[0]); }, 1}};
  if (name == "sym_float") return {{[](Numbers n) -> c10::IValue { return real_of(n[0]); }, 1}};
  if (name == "sym_ite") return {{[](Numbers n) { return truth_of(n[0]) ? n[1] : n[2]; }, 3}};
  if (name == "sym_sqrt" || name == "_sym_sqrt")
    return {{[](Numbers n) -> c10::IValue { return std::sqrt(real_of(n[0])); }, 1}};
  return {};
}

IKEBANA_INLINE std::optional<KnownNumberFunction> number_function(std::string_view target) {
  const std::size_t dot = target.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view module = target.substr(0, dot), name = target.substr(dot + 1);
  if (module == "math") {
    if (name == "trunc") return {{[](Numbers n) -> c10::IValue { return truncated(n[0]); }, 1}};
    return {};
  }
  if (module != "_operator" && module != "operator" && module != "torch" &&
      module != "torch._C._functions" && module != "torch.sym")
    return {};
  if (name == "neg")
    return {{[](Numbers n) -> c10::IValue {
               if (n[0].isDouble()) return -n[0].toDouble();
               std::int64_t result = 0;
               if (__builtin_sub_overflow(std::int64_t{0}, whole_of(n[0]), &result))
                 number_out_of_range();
               return result;
             },
             1}};
  if (name == "pos") return {{[](Numbers n) { return n[0]; }, 1}};
  if (auto found = arithmetic(name)) return found;
  if (auto found = comparison(name)) return found;
  return symbolic(name);
}

}  // namespace ikebana::detail::pt2
