#pragma once
// The sizes of inputs that may change, and inputs at other sizes than the example's.
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/export/sizes.hpp>

namespace ikebana {

/// A dimension of an input that may have other sizes than the example's: `{"input", 0, "rows"}`.
struct DynamicDim {
  std::string input;      ///< the input's name: `input`, `input_1`, or that of a field or an entry
  std::int64_t dim = 0;   ///< the dimension, from 0, or from -1 backwards
  std::string name = {};  ///< dimensions of one name have one size; empty: a size of its own
  std::int64_t min = 2;   ///< the smallest size, at least 2: torch.export fixes 0 and 1
  std::int64_t max = 0;   ///< the largest size; 0: any
  std::int64_t multiple_of = 1;  ///< all sizes are multiples of it, as halving images needs
};

namespace detail::exported {

/// A size that may change, with all dimensions that have it.
struct Symbol {
  std::string name;
  std::int64_t example = 0, min = 2, max = 0, multiple_of = 1;
  std::vector<std::pair<std::size_t, std::size_t>> places{};  ///< input and dimension
};

/// The symbols of `dynamic`. Throws BadValue for an input or a dimension that the example lacks,
/// and for a range that does not hold the example's size.
std::vector<Symbol> symbols_of(const std::vector<DynamicDim>& dynamic, const Nested& example);

/// The sizes at which the model is recorded, by recording and symbol: the example's; for each
/// symbol one with another size of it alone; and two with other sizes of all. Sizes of one symbol
/// have no common factor with the example's, if its range allows.
std::vector<Values> sizes_to_record(const std::vector<Symbol>& symbols);

/// The example's inputs with other sizes: their rows, repeated. `shift` begins with another row.
std::vector<at::Tensor> resized(const std::vector<at::Tensor>& inputs,
                                const std::vector<Symbol>& symbols, const Values& sizes,
                                std::int64_t shift);

/// Describes sizes as "rows 5, length 7"; empty without a symbol.
std::string text_of(const std::vector<Symbol>& symbols, const Values& sizes);

}  // namespace detail::exported
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/dynamic.ipp>
#endif
