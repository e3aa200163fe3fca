#pragma once
// Finds the sizes of inputs that may change, and makes inputs with other sizes than the example's.
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/export/sizes.hpp>

namespace ikebana {

/// A dimension of an input that may have other sizes than the example's: `{"input", 0, "rows"}`.
struct DynamicDim {
  std::string input;      ///< the input's name: `input`, `input_1`, or the name of a field or an
                          ///< entry
  std::int64_t dim = 0;   ///< the dimension, counted from 0, or from -1 backwards
  std::string name = {};  ///< dimensions with the same name have the same size; empty: a size of
                          ///< its own
  std::int64_t min = 2;   ///< the smallest size, at least 2, because torch.export fixes 0 and 1
  std::int64_t max = 0;   ///< the largest size; 0: no limit
  std::int64_t multiple_of = 1;  ///< all sizes are multiples of it, which halving images needs
};

namespace detail::exported {

/// A size that may change, with all dimensions that have it.
struct Symbol {
  std::string name;
  std::int64_t example = 0, min = 2, max = 0, multiple_of = 1;
  std::vector<std::pair<std::size_t, std::size_t>> places{};  ///< the input and the dimension of
                                                              ///< each place
};

/// Returns the symbols of `dynamic`. Throws BadValue for an input or a dimension that the example
/// lacks, and for a range that does not hold the example's size.
std::vector<Symbol> symbols_of(const std::vector<DynamicDim>& dynamic, const Nested& example);

/// Returns the sizes at which the model is recorded, by recording and symbol. The first recording
/// has the example's sizes. For each symbol, one recording changes only the size of this symbol.
/// Two recordings change all sizes. The sizes of one symbol have no common factor with the
/// example's, if its range allows that.
std::vector<Values> sizes_to_record(const std::vector<Symbol>& symbols);

/// Returns the example's inputs with other sizes, for which their rows are repeated. `shift` says
/// with which row they begin.
std::vector<at::Tensor> resized(const std::vector<at::Tensor>& inputs,
                                const std::vector<Symbol>& symbols, const Values& sizes,
                                std::int64_t shift);

/// Describes sizes as "rows 5, length 7". Returns an empty text if there is no symbol.
std::string text_of(const std::vector<Symbol>& symbols, const Values& sizes);

}  // namespace detail::exported
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/dynamic.ipp>
#endif
