#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/observe/non_finite_watch.hpp>
#include <set>

namespace ikebana::detail {

inline Badness badness(const c10::IValue& value) {
  if (!value.isDouble() && !value.isScalar()) return Badness::Finite;
  const at::Scalar number = value.toScalar();
  if (!number.isFloatingPoint() || std::isfinite(number.toDouble())) return Badness::Finite;
  return std::isnan(number.toDouble()) ? Badness::NaN : Badness::Infinite;
}

/// Returns true for an argument of which the operator reads the values before it writes to it.
inline bool is_changed_in_place(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite() &&
         !argument.kwarg_only();
}

/// Returns true for an operator that makes no value, since its results share the memory of its
/// arguments. Another rank's values may arrive in that memory meanwhile.
inline bool returns_views(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() &&
         std::all_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

IKEBANA_INLINE Badness badness(const at::Tensor& t) {
  if (!t.defined() || !(t.is_floating_point() || t.is_complex()) || t.numel() == 0 ||
      t.layout() != at::kStrided || t.is_meta() || !t.has_storage() || t.storage().nbytes() == 0)
    return Badness::Finite;
  if (t.isfinite().all().item<bool>()) return Badness::Finite;
  return t.isnan().any().item<bool>() ? Badness::NaN : Badness::Infinite;
}

IKEBANA_INLINE void NonFiniteWatch::call(bridge::OperatorCall& call) {
  if (first_nan_ || bridge::only_allocates(call.name()) || returns_views(call.schema()))
    return call.compute();
  Badness of_numbers = Badness::Finite;
  for (const c10::IValue& value : call.arguments())
    if (!value.isTensor()) of_numbers = std::max(of_numbers, badness(value));
  const std::vector<Argument> arguments = arguments_of(call);
  call.compute();
  look_at(call, arguments, of_numbers);
}

IKEBANA_INLINE std::vector<NonFiniteWatch::Argument> NonFiniteWatch::arguments_of(
    const bridge::OperatorCall& call) const {
  std::vector<Argument> all;
  for (std::size_t i = 0; i < call.arguments().size(); ++i) {
    const c10::Argument& argument = call.schema().arguments()[i];
    const bool is_output = argument.alias_info() != nullptr && argument.alias_info()->isWrite() &&
                           argument.kwarg_only();
    if (is_output) continue;
    visit_tensors(call.arguments()[i], [&](const at::Tensor& t) {
      all.push_back({t});
      if (is_changed_in_place(argument)) all.back().before = badness(t);
    });
  }
  return all;
}

IKEBANA_INLINE void NonFiniteWatch::look_at(const bridge::OperatorCall& call,
                                            const std::vector<Argument>& arguments,
                                            Badness of_numbers) {
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : call.results())
    visit_tensors(value, [&](const at::Tensor& t) { results.push_back(t); });
  for (const Argument& argument : arguments)  // an operator may return nothing of what it writes
    if (argument.before) results.push_back(argument.tensor);
  std::erase_if(results, [](const auto& t) { return badness(t) == Badness::Finite; });
  if (results.empty()) return;
  const Badness given = std::max(of_numbers, worst(call, arguments));
  for (const at::Tensor& result : results) {
    if (badness(result) > given) note(call, arguments, result);
    remember(result);
  }
}

IKEBANA_INLINE Badness NonFiniteWatch::worst(const bridge::OperatorCall& call,
                                             const std::vector<Argument>& arguments) {
  Badness worst = Badness::Finite;
  for (const auto& [tensor, before] : arguments) {
    const Badness one = before ? *before : badness(tensor);
    if (one != Badness::Finite && !is_known(tensor)) note_unknown(call, tensor);
    worst = std::max(worst, one);
  }
  return worst;
}

IKEBANA_INLINE void NonFiniteWatch::note(const bridge::OperatorCall& call,
                                         const std::vector<Argument>& arguments,
                                         const at::Tensor& result) {
  auto& first = badness(result) == Badness::NaN ? first_nan_ : first_infinity_;
  if (first) return;
  std::string text =
      place_text() + ", by `" + call.name().name + "`: its result " + values_text(result);
  for (const auto& [t, before] : arguments) {
    if (!t.defined() || !t.is_floating_point() || t.numel() == 0 || before) continue;
    text += "; an argument " + c10::str(t.sizes()) + " was from " +
            rounded(t.min().to(at::kDouble).item<double>()) + " to " +
            rounded(t.max().to(at::kDouble).item<double>());
  }
  first = text;
  if (!first_made_in_) first_made_in_ = place_.phase;
}

IKEBANA_INLINE void NonFiniteWatch::note_unknown(const bridge::OperatorCall& call,
                                                 const at::Tensor& argument) {
  if (!first_unknown_)
    first_unknown_ =
        place_text() + ", `" + call.name().name + "` was given a tensor " + values_text(argument);
  remember(argument);
}

IKEBANA_INLINE bool NonFiniteWatch::is_known(const at::Tensor& t) const {
  const auto found = known_.find(t.storage().unsafeGetStorageImpl());
  return found != known_.end() && !found->second.expired();
}

IKEBANA_INLINE void NonFiniteWatch::remember(const at::Tensor& t) {
  known_.insert_or_assign(t.storage().unsafeGetStorageImpl(), t.storage().getWeakStorageImpl());
}

IKEBANA_INLINE std::string NonFiniteWatch::place_text() const {
  std::string text = std::string("in ") + phase_name(place_.phase);
  if (place_.microbatches > 1)
    text += " of microbatch " + std::to_string(place_.microbatch) + " of " +
            std::to_string(place_.microbatches);
  const std::size_t unit = place_.nodes.unit(place_.phase);
  if (unit != 0) text += ", in unit `" + units_.units()[unit].name + "`";
  if (place_.phase == Phase::Backward)
    if (const auto node = torch::autograd::get_current_node()) text += ", in " + node->name();
  return text;
}

IKEBANA_INLINE std::string NonFiniteWatch::values_text(const at::Tensor& t) const {
  const at::Tensor bad = t.isfinite().logical_not();
  const auto all = bad.sum().item<std::int64_t>(), nan = t.isnan().sum().item<std::int64_t>();
  return c10::str(t.sizes()) + " has " + std::to_string(nan) + " NaN and " +
         std::to_string(all - nan) + " infinite of " + std::to_string(t.numel()) + " values" +
         rows_text(bad);
}

IKEBANA_INLINE std::string NonFiniteWatch::rows_text(const at::Tensor& bad) const {
  if (bad.dim() == 0) return {};
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(place_.microbatches, 1));
  const std::int64_t rows = place_.rows % count == 0 ? place_.rows / count : 0;
  const bool are_rows = rows > 0 && bad.size(0) % rows == 0;
  const std::int64_t each = are_rows ? bad.size(0) / rows : 1;
  const auto first =
      are_rows ? static_cast<std::int64_t>(std::max<std::size_t>(place_.microbatch, 1) - 1) * rows
               : 0;
  const at::Tensor indices = bad.reshape({bad.size(0), -1}).any(1).nonzero().reshape({-1});
  std::set<std::int64_t> found;
  for (std::int64_t i = 0; i < indices.numel(); ++i)
    found.insert(first + indices[i].item<std::int64_t>() / each);
  std::vector<std::string> texts;
  for (const std::int64_t row : found)
    if (texts.size() < 5) texts.push_back(std::to_string(row));
  return (are_rows ? ", in rows " : ", at the indices ") + joined(texts) +
         (found.size() > 5 ? " and " + std::to_string(found.size() - 5) + " others" : "") +
         (are_rows ? " of the batch" : " of dimension 0");
}

IKEBANA_INLINE std::string NonFiniteWatch::finding() const {
  const int unknown = static_cast<int>(Phase::Optimizer) + 1;
  const int place = first_made_in_   ? static_cast<int>(*first_made_in_)
                    : first_unknown_ ? unknown
                                     : unknown + 1;
  return std::to_string(place) + text();
}

IKEBANA_INLINE std::string NonFiniteWatch::text() const {
  std::string text;
  if (first_infinity_)
    text += " In a repeat of the step the first infinity was made " + *first_infinity_ + ".";
  if (first_nan_) text += " In a repeat of the step the first NaN was made " + *first_nan_ + ".";
  if (text.empty() && first_unknown_)
    text = " In a repeat of the step, " + *first_unknown_ +
           ", which no operator has made: other code wrote it, such as a function of your own.";
  if (text.empty())
    text =
        " In a repeat of the step the results of all operators were finite: other code than "
        "operators made the value, or the error counts steps.";
  return text;
}

/// Adds what a rank says, with its number if there are several, unless another one says the same.
inline void add_of_rank(std::string& text, const std::vector<std::string>& ranks,
                        std::size_t rank) {
  const std::string sentences = ranks[rank].substr(1);
  if (sentences.empty() || text.find(sentences) != std::string::npos) return;
  text += (ranks.size() > 1 ? " On rank " + std::to_string(rank) + ":" : "") + sentences;
}

IKEBANA_INLINE std::optional<std::string> given_on_ranks(const std::vector<std::string>& ranks) {
  std::optional<std::string> text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) continue;
    if (!text) text.emplace();
    add_of_rank(*text, ranks, rank);
  }
  return text;
}

IKEBANA_INLINE std::string found_on_ranks(const std::vector<std::string>& ranks) {
  char nearest = '9';
  for (const std::string& one : ranks) nearest = std::min(nearest, one[0]);
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank][0] == nearest) add_of_rank(text, ranks, rank);
  return text;
}

}  // namespace ikebana::detail
