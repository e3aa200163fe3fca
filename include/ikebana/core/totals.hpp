#pragma once
// The divisor of a loss: its count over all microbatches and ranks. Nobody else divides.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// What a step knows of its loss: the sums, and the counts they are divided by. Counts are known
/// before the first backward where the model or the objective has `count(batch)`, or where one
/// microbatch on one rank is all there is; otherwise sums are summed, and the gradients are divided
/// once at the end.
class Totals {
 public:
  template <class Objective, class Model, class Microbatches, class Ranks>
  Totals(Objective& objective, Model& model, const Microbatches& microbatches, Ranks& ranks,
         bool is_first_step)
      : first_step_(is_first_step), alone_(std::size(microbatches) == 1 && ranks.ranks() == 1) {
    if constexpr (requires { objective.count(model, *std::begin(microbatches)); }) {
      if (alone_ && !first_step_) return;  // its own count comes with its loss
      for (const auto& microbatch : microbatches) expect(objective.count(model, microbatch));
      for (Count& count : early_) {
        count = ranks.sum(count);
        refuse_zero(count);
      }
    }
  }

  /// Adds a microbatch's sums; `roots` are then those that backward starts from, each to be divided
  /// by its total, or only summed where that is not known yet.
  void add(const Loss& loss, Roots& roots) {
    roots.clear();
    std::size_t i = 0;
    const Count& first =
        loss.sum.defined() || loss.terms.empty() ? loss.count : loss.terms[0].count;
    detail::each_term(loss, [&](const std::string& name, const at::Tensor& sum, const Count& count,
                                double scale) {
      check_term(name, sum);
      if (late() && !same(count, first)) refuse_unequal_late(name);
      const Count& total = divisor(i, count);
      if (sum.requires_grad()) {
        roots.sums.push_back(sum);
        roots.seeds.push_back((late() ? Count(1) : total).gradient(sum, scale));
      }
      remember(i++, name, sum.variable_data(), count, scale);  // detached, and quicker
    });
    if (roots.sums.empty())
      throw BadModel(
          "loss: it depends on no parameter that is trained. Compute it from the model's "
          "output, with gradients enabled.");
  }

  /// After the last backward: what is left to divide the gradients by. At the first step: did
  /// `count(batch)` tell what the losses then summed over?
  template <class Ranks>
  void finish(StepGradients& gradients, Ranks& ranks, detail::DeferredCheck& deferred) {
    if (late() || (first_step_ && !early_.empty()))
      for (auto& part : value_.parts) part.count = ranks.sum(part.count);
    if (late()) {
      refuse_zero(value_.parts[0].count);
      gradients.divide(value_.parts[0].count.tensor(value_.parts[0].sum));
    }
    if (early_.empty()) return;
    for (std::size_t i = 0; i < value_.parts.size(); ++i) {
      if (first_step_) check_early(i, deferred);
      value_.parts[i].count = early(i);
    }
  }

  /// Complete after `finish`.
  LossValue& value() { return value_; }

 private:
  void expect(const Count& count) { expect(0, count); }
  void expect(const std::vector<Count>& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) expect(i, counts[i]);
  }
  void expect(std::size_t i, const Count& count) {
    if (i < early_.size()) early_[i] += count;
    else early_.push_back(count);
  }
  static void refuse_zero(const Count& count) {
    if (count.readable() && !(count.value() > 0))
      throw BadBatch(
          "loss: it counts " + std::to_string(count.value()) +
          " items. Every target may be masked or ignored; skip such a batch, or return the number "
          "of items summed over.");
  }
  static void check_term(const std::string& name, const at::Tensor& sum) {
    if (sum.numel() != 1)
      throw BadModel("loss: the sum of term `" + name + "` has shape " + c10::str(sum.sizes()) +
                     ", not one number. Reduce it, e.g. with at::Reduction::Sum.");
  }
  [[noreturn]] static void refuse_unequal_late(const std::string& name) {
    throw BadModel("loss: term `" + name +
                   "` counts other items than the first, and the totals are not known before "
                   "backward. Give the model `count(batch)`, one number a term.");
  }

  bool late() const { return early_.empty() && !alone_; }
  /// `count(batch)` may tell one number for all terms, or one for each.
  const Count& early(std::size_t i) const { return early_.size() == 1 ? early_[0] : early_.at(i); }
  const Count& divisor(std::size_t i, const Count& own) const {
    if (late()) return own;
    if (!early_.empty()) {
      if (early_.size() != 1 && i >= early_.size())
        throw BadModel(
            "loss: count(batch) tells " + std::to_string(early_.size()) +
            " counts, the loss has more terms. Return one for each term, or one for all.");
      return early(i);
    }
    refuse_zero(own);
    return own;
  }
  void remember(std::size_t i, const std::string& name, at::Tensor sum, const Count& count,
                double scale) {
    if (i == value_.parts.size()) {
      value_.parts.push_back({name, std::move(sum), count, scale});
    } else {
      LossValue::Part& part = value_.parts[i];
      if (part.scale != scale) refuse_another_scale(name, part.scale, scale);
      part.sum = part.sum + sum;
      part.count += count;
    }
  }
  [[noreturn]] static void refuse_another_scale(const std::string& name, double before,
                                                double now) {
    throw BadModel("loss: the scale of term `" + name + "` is " + c10::str(now) + " and was " +
                   c10::str(before) +
                   " in the microbatch before. Multiply what differs within a step into the sum.");
  }
  void check_early(std::size_t i, detail::DeferredCheck& deferred) const {
    const auto& part = value_.parts[i];
    auto raise = [i] {
      throw BadModel("loss: count(batch) tells another number than Loss::count of term " +
                     std::to_string(i) + ". Let both count the same items.");
    };
    if (early(i).readable() && part.count.readable()) {
      if (early(i).value() != part.count.value()) raise();
    } else {
      auto differ = early(i).tensor(part.sum).ne(part.count.tensor(part.sum));
      deferred.expect_zero(differ.to(at::kFloat), raise);
    }
  }

  bool first_step_, alone_;
  c10::SmallVector<Count, 1> early_;  // one a term, or one for all
  LossValue value_;                   // counts are those seen so far
};

}  // namespace ikebana
