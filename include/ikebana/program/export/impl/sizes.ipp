#pragma once
#include <algorithm>
#include <array>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/sizes.hpp>

namespace ikebana::detail::exported {

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
inline std::int64_t computed(SizeExpression::Operation operation, std::int64_t a, std::int64_t b) {
  using Operation = SizeExpression::Operation;
  return operation == Operation::Add   ? a + b
         : operation == Operation::Sub ? a - b
         : operation == Operation::Mul ? a * b
                                       : floor_div(a, b);
}

IKEBANA_INLINE SizeTable::SizeTable(const std::vector<Values>& symbols) : symbols_(symbols.size()) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    all_.emplace_back();
    all_.back().values = symbols[i], all_.back().symbol = i;
  }
}

IKEBANA_INLINE std::int64_t SizeTable::recorded(const Size& size, std::size_t recording) const {
  return size.expression ? all_[*size.expression].values[recording] : size.number;
}

IKEBANA_INLINE std::int64_t SizeTable::value(const Size& size, const Values& symbols) const {
  if (!size.expression) return size.number;
  const SizeExpression& e = all_[*size.expression];
  if (e.operation == Operation::Symbol) return symbols[e.symbol];
  return computed(e.operation, value(e.left, symbols), value(e.right, symbols));
}

IKEBANA_INLINE std::string SizeTable::text(const Size& size) const {
  if (!size.expression) return "Integer(" + std::to_string(size.number) + ")";
  const SizeExpression& e = all_[*size.expression];
  const auto of = [&](const char* name, const std::string& a, const std::string& b) {
    return std::string(name) + "(" + a + ", " + b + ")";
  };
  switch (e.operation) {
    case Operation::Symbol:
      return "Symbol('s" + std::to_string(e.symbol) + "', positive=True, integer=True)";
    case Operation::Add:
      return of("Add", text(e.left), text(e.right));
    case Operation::Sub:
      return of("Add", text(e.left), of("Mul", "Integer(-1)", text(e.right)));
    case Operation::Mul:
      return of("Mul", text(e.left), text(e.right));
    default:
      return of("FloorDiv", text(e.left), text(e.right));
  }
}

IKEBANA_INLINE std::optional<Size> SizeTable::known(const Values& values) const {
  if (std::ranges::all_of(values, [&](std::int64_t v) { return v == values[0]; }))
    return Size{values[0], {}};
  for (std::size_t i = 0; i < all_.size(); ++i)
    if (all_[i].values == values) return Size{0, i};
  return {};
}

IKEBANA_INLINE Size SizeTable::add(Operation operation, Size left, Size right) {
  SizeExpression e;
  e.operation = operation, e.left = left, e.right = right;
  e.divides = operation == Operation::FloorDiv;
  for (const Size& part : {left, right})
    if (part.expression) e.divides = e.divides || all_[*part.expression].divides;
  const std::size_t count = all_.empty() ? 0 : all_[0].values.size();
  for (std::size_t r = 0; r < count; ++r)
    e.values.push_back(computed(operation, recorded(left, r), recorded(right, r)));
  if (const auto same = known(e.values)) return *same;
  all_.push_back(std::move(e));
  return {0, all_.size() - 1};
}

IKEBANA_INLINE Size SizeTable::scaled(Size expression, std::int64_t factor, std::int64_t offset) {
  if (factor != 1) expression = add(Operation::Mul, expression, {factor, {}});
  if (offset > 0) return add(Operation::Add, expression, {offset, {}});
  if (offset < 0) return add(Operation::Sub, expression, {-offset, {}});
  return expression;
}

/// Returns the number c of `values = c * of + d`, or no value if it does not exist.
inline std::optional<std::int64_t> slope(const Values& values, const Values& of) {
  for (std::size_t r = 1; r < values.size(); ++r) {
    const std::int64_t run = of[r] - of[0], rise = values[r] - values[0];
    if (run == 0) continue;
    if (rise % run != 0 || rise == 0) return {};
    const std::int64_t c = rise / run, d = values[0] - c * of[0];
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != c * of[i] + d) return {};
    return c;
  }
  return {};
}

IKEBANA_INLINE std::optional<Size> SizeTable::affine(const Values& values, std::size_t of) {
  const auto c = slope(values, all_[of].values);
  if (!c) return {};
  return scaled({0, of}, *c, values[0] - *c * all_[of].values[0]);
}

/// Returns `(of + d) // r`, as strided convolutions, poolings and halves give it, with the d
/// nearest to 0.
IKEBANA_INLINE std::optional<Size> SizeTable::quotient(const Values& values, std::size_t of) {
  constexpr std::int64_t max_divisor = 64;
  const Values& a = all_[of].values;
  for (std::int64_t r = 2; r <= max_divisor; ++r) {
    std::int64_t low = r * values[0] - a[0], high = low + r - 1;
    for (std::size_t i = 1; i < values.size(); ++i) {
      const std::int64_t own = r * values[i] - a[i];
      low = std::max(low, own), high = std::min(high, own + r - 1);
    }
    if (low > high) continue;
    const std::int64_t d = std::clamp<std::int64_t>(0, low, high);
    return add(Operation::FloorDiv, scaled({0, of}, 1, d), {r, {}});
  }
  return {};
}

IKEBANA_INLINE std::optional<Size> SizeTable::sum(const Values& values) {
  constexpr std::array<std::int64_t, 4> factors{1, -1, 2, -2};
  for (std::size_t i = 0, n = all_.size(); i < n; ++i)
    for (const std::int64_t factor : factors) {
      Values rest = values;
      for (std::size_t r = 0; r < rest.size(); ++r) rest[r] -= factor * all_[i].values[r];
      for (std::size_t j = 0; j < n; ++j)
        if (const auto c = slope(rest, all_[j].values); c && j != i) {
          const Size first = scaled({0, i}, factor, 0);
          const Size second = scaled({0, j}, *c, rest[0] - *c * all_[j].values[0]);
          return add(Operation::Add, first, second);
        }
    }
  return {};
}

IKEBANA_INLINE std::optional<Size> SizeTable::product(const Values& values) {
  for (std::size_t i = 0, n = all_.size(); i < n; ++i) {
    Values rest = values;
    bool divides = true;
    for (std::size_t r = 0; r < rest.size() && divides; ++r) {
      divides = all_[i].values[r] != 0 && rest[r] % all_[i].values[r] == 0;
      if (divides) rest[r] /= all_[i].values[r];
    }
    if (!divides) continue;
    std::optional<Size> other = known(rest);
    for (std::size_t j = 0; j < n && !other; ++j) other = affine(rest, j);
    if (!other)
      for (std::size_t j = 0; j < n && !other; ++j) {
        Values third = rest;
        bool again = true;
        for (std::size_t r = 0; r < third.size() && again; ++r) {
          again = all_[j].values[r] != 0 && third[r] % all_[j].values[r] == 0;
          if (again) third[r] /= all_[j].values[r];
        }
        if (!again) continue;
        if (const auto last = known(third)) other = add(Operation::Mul, {0, j}, *last);
      }
    if (other) return add(Operation::Mul, {0, i}, *other);
  }
  return {};
}

IKEBANA_INLINE std::optional<Size> SizeTable::find(const Values& values) {
  if (const auto same = known(values)) return same;
  for (std::size_t i = 0, n = all_.size(); i < n; ++i)
    if (const auto found = affine(values, i)) return found;
  if (const auto found = product(values)) return found;
  for (std::size_t i = all_.size(); i-- > 0;)
    if (const auto found = quotient(values, i)) return found;
  return sum(values);
}

}  // namespace ikebana::detail::exported
