#pragma once
// Defines a row of the table of estimates, the columns, and the bars.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// The memory of one recipe: peaks in bytes.
struct Row {
  std::string model, recipe;
  std::int64_t shapes = 0;         ///< estimated from shapes alone
  std::int64_t training = 0;       ///< the bytes of a training that knows nothing of an estimate
  std::int64_t measured_form = 0;  ///< the bytes that an estimate of a real batch measured
  /// Under Checkpoint<Budget>: the budget, and the peak that its plan predicts.
  std::optional<std::int64_t> budget = {}, plan = {};
  std::vector<double> losses = {};
  /// The losses of this recipe without Checkpoint, which must be equal to the bit.
  std::optional<std::vector<double>> without_checkpoint = {};

  double over_training(std::int64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(training);
  }
  bool losses_agree() const { return !without_checkpoint || *without_checkpoint == losses; }
  /// Returns whether the bars hold: 5 % for shapes and for the plan, 2 % for the measured form, and
  /// no budget is exceeded. Under a budget both estimates need only keep within it: one plans by
  /// bytes, the other by times of its own, and a training may choose another plan.
  bool holds() const {
    const bool estimates_hold = budget ? std::max(shapes, measured_form) <= *budget
                                       : is_within(0.05, shapes) && is_within(0.02, measured_form);
    return estimates_hold && is_within(0.05, plan) && (!budget || training <= *budget) &&
           losses_agree();
  }

 private:
  bool is_within(double share, std::optional<std::int64_t> bytes) const {
    return !bytes || std::abs(over_training(*bytes) - 1) <= share;
  }
};

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}
inline std::string mib(std::optional<std::int64_t> bytes) {
  return bytes ? formatted("%.1f", static_cast<double>(*bytes) / (1 << 20)) : "-";
}
inline std::string over_training(const Row& row, std::optional<std::int64_t> bytes) {
  return bytes ? formatted("%.4f", row.over_training(*bytes)) : "-";
}

/// A further figure of a row is a field of Row and a line here.
struct Column {
  const char* title;
  bool is_number;
  std::function<std::string(const Row&)> text;
};
inline const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {"model", false, [](const Row& r) { return r.model; }},
      {"recipe", false, [](const Row& r) { return r.recipe; }},
      {"from shapes, MiB", true, [](const Row& r) { return mib(r.shapes); }},
      {"measured form, MiB", true, [](const Row& r) { return mib(r.measured_form); }},
      {"plan, MiB", true, [](const Row& r) { return mib(r.plan); }},
      {"training, MiB", true, [](const Row& r) { return mib(r.training); }},
      {"shapes over training", true, [](const Row& r) { return over_training(r, r.shapes); }},
      {"measured over training", true,
       [](const Row& r) { return over_training(r, r.measured_form); }},
      {"plan over training", true, [](const Row& r) { return over_training(r, r.plan); }},
      {"losses, with and without Checkpoint", false,
       [](const Row& r) {
         if (!r.without_checkpoint) return "-";
         return r.losses_agree() ? "same bits" : "DIFFERENT";
       }},
      {"holds", false, [](const Row& r) { return r.holds() ? "yes" : "NO"; }}};
  return all;
}

inline void print_header() {
  std::string titles = "|", line = "|";
  for (const Column& column : columns()) {
    titles += std::string(" ") + column.title + " |";
    line += column.is_number ? "---:|" : "---|";
  }
  std::printf("%s\n%s\n", titles.c_str(), line.c_str());
}
/// Prints a row at once, since the next one takes a while. Returns whether its bars hold.
inline bool print(const Row& row) {
  std::string text = "|";
  for (const Column& column : columns()) text += " " + column.text(row) + " |";
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  return row.holds();
}

}  // namespace bench
