#pragma once
// Finds how the integers of recordings follow from the sizes that may change.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail::exported {

/// The values that one integer has in each of the recordings.
using Values = std::vector<std::int64_t>;

/// An integer of a program: a number, or an expression of the table.
struct Size {
  std::int64_t number = 0;
  std::optional<std::size_t> expression{};
};

/// An integer that depends on the sizes that may change. It is a symbol, or the result of an
/// operation on two others.
struct SizeExpression {
  enum class Operation { Symbol, Add, Sub, Mul, FloorDiv };
  Values values;
  Operation operation = Operation::Symbol;
  std::size_t symbol = 0;
  Size left{}, right{};
  bool divides = false;  ///< a division is part of it, by a rule that was guessed
};

/// All such expressions of a program. For an integer that differs between recordings, it searches
/// the sums, products and quotients of what is known for one that fits all recordings.
class SizeTable {
 public:
  /// `symbols` has the values of each size that may change, in each recording.
  explicit SizeTable(const std::vector<Values>& symbols);

  /// Returns the integer with these values, or no value if no expression has them.
  std::optional<Size> find(const Values& values);
  const SizeExpression& operator[](std::size_t i) const { return all_[i]; }
  /// Returns the expression in the form that sympy reads.
  std::string text(const Size& size) const;
  /// Returns its value, for these values of the symbols.
  std::int64_t value(const Size& size, const Values& symbols) const;
  /// Returns the value that it has in a recording.
  std::int64_t recorded(const Size& size, std::size_t recording) const;

 private:
  using Operation = SizeExpression::Operation;
  Size add(Operation operation, Size left, Size right);
  std::optional<Size> known(const Values& values) const;
  std::optional<Size> affine(const Values& values, std::size_t of);
  std::optional<Size> quotient(const Values& values, std::size_t of);
  std::optional<Size> sum(const Values& values);
  std::optional<Size> product(const Values& values);
  /// Returns `expression * factor + offset`.
  Size scaled(Size expression, std::int64_t factor, std::int64_t offset);

  std::vector<SizeExpression> all_;
  std::size_t symbols_;
};

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/sizes.ipp>
#endif
