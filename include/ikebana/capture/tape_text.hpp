#pragma once
// Writes a recorded step as a text that reads like a program.
#include <ikebana/capture/recording.hpp>

namespace ikebana::detail {

/// Writes the operators that a replay calls, in their order, with the tensors that they read and
/// write.
class TapeText {
 public:
  explicit TapeText(const Recording& recording);
  /// Returns the text. Its first line is the number of operators and `where`. `microseconds` has
  /// the time of each operator, or is empty.
  std::string text(const std::string& where, const std::vector<double>& microseconds) const;

 private:
  std::string text_of(const RecordedTensor& t) const;
  std::string text_of(const RecordedValue& value, const std::string& argument) const;
  std::string line_of(const RecordedOperator& one) const;

  const Recording& recording_;
  std::vector<std::size_t> operators_;
  std::vector<std::uint32_t> numbers_;  // the numbers of memory without a name
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/tape_text.ipp>
#endif
