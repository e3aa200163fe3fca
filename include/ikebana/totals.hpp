#pragma once
// The divisor of a loss: its count over all microbatches and ranks. Nobody else divides.
#include <ikebana/hooks.hpp>
#include <optional>

namespace ikebana {

/// What a step knows of the counts of its loss. Known before the first backward where the model or
/// the objective has `count(batch)`, or where one microbatch on one rank is all there is; otherwise
/// sums are summed, and the gradients are divided once at the end.
class Totals {
 public:
  template <class Objective, class Model, class Microbatches, class Ranks>
  Totals(Objective& objective, Model& model, const Microbatches& microbatches, Ranks& ranks,
         bool is_first_step)
      : alone_(std::size(microbatches) == 1 && ranks.ranks() == 1) {
    if constexpr (requires { objective.count(model, *std::begin(microbatches)); }) {
      if (alone_ && !is_first_step) return;  // its own count comes with its loss
      for (const auto& microbatch : microbatches) add_early(objective.count(model, microbatch));
      for (Count& count : early_) {
        count = ranks.sum(count);
        refuse_zero(count);
      }
    }
  }

  /// What backward starts from: every term divided by its total, or only summed where that is not
  /// known yet.
  at::Tensor root(const Loss& loss) {
    at::Tensor root;
    std::size_t i = 0;
    const Count& first =
        loss.sum.defined() || loss.terms.empty() ? loss.count : loss.terms[0].count;
    detail::each_term(loss, [&](const std::string& name, const at::Tensor& sum, const Count& count,
                                double scale) {
      check_term(name, sum);
      if (late() && !same(count, first)) refuse_unequal_late(name);
      add(seen_, i, count);
      at::Tensor part = late() ? sum : divisor(i, count).divide(sum);
      if (scale != 1) part = part * scale;
      root = root.defined() ? root + part : part;
      add_to_report(i++, name, sum, loss.terms.empty());
    });
    if (!root.requires_grad())
      throw BadModel(
          "loss: it depends on no parameter that is trained. Compute it from the model's "
          "output, with gradients enabled.");
    at::Tensor value = root.detach();
    mean_ = mean_.defined() ? mean_ + value : value;
    return root;
  }

  /// After the last backward: what is left to divide the gradients by.
  template <class Ranks>
  void finish(StepGradients& gradients, Ranks& ranks) {
    if (!late()) return;
    for (Count& count : seen_) count = ranks.sum(count);
    refuse_zero(seen_[0]);
    gradients.divide(seen_[0].tensor(mean_));
  }

  /// At the first step: did `count(batch)` tell what the losses then summed over?
  template <class Later, class Ranks>
  void check_early(Later& later, Ranks& ranks) const {
    for (std::size_t i = 0; i < seen_.size() && !early_.empty(); ++i) {
      Count told = early(i), seen = ranks.sum(seen_[i]);
      auto raise = [i] {
        throw BadModel("loss: count(batch) tells another number than Loss::count of term " +
                       std::to_string(i) + ". Let both count the same items.");
      };
      if (told.readable() && seen.readable()) {
        if (told.value() != seen.value()) raise();
      } else {
        later.expect_zero(told.tensor(mean_).ne(seen.tensor(mean_)).to(at::kFloat), raise);
      }
    }
  }

  void report(Report& report) const {
    report.mean = mean_;
    if (late()) report.late = seen_[0];
    report.items = early_.empty() ? seen_[0] : early_[0];
    report.parts = parts_;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      report.parts[i].count = early_.empty() ? seen_[i] : early(i);
  }
  const at::Tensor& mean() const { return mean_; }

 private:
  void add_early(const Count& count) { add(early_, 0, count); }
  void add_early(const std::vector<Count>& counts) {
    for (std::size_t i = 0; i < counts.size(); ++i) add(early_, i, counts[i]);
  }
  template <class Counts>
  static void add(Counts& counts, std::size_t i, const Count& count) {
    if (i < counts.size()) counts[i] += count;
    else counts.push_back(count);
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
  void add_to_report(std::size_t i, const std::string& name, const at::Tensor& sum, bool unnamed) {
    if (unnamed) return;
    if (i < parts_.size()) parts_[i].sum = parts_[i].sum + sum.detach();
    else parts_.push_back({name, sum.detach(), {}});
  }

  bool alone_;
  c10::SmallVector<Count, 2> early_, seen_;  // one a term; no allocation for one or two
  at::Tensor mean_;
  std::vector<Report::Part> parts_;
};

}  // namespace ikebana
