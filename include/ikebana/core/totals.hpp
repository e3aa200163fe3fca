#pragma once
// The divisor of a loss: its count over all microbatches and ranks. No other code divides.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// The sums of a step's loss, and the counts that they are divided by. Counts are known before the
/// first backward where the model or the objective has `count(batch)`, or where there is one
/// microbatch on one rank; otherwise sums are added up, and the gradients are divided once at the
/// end.
class Totals {
 public:
  template <class Objective, class Model, class Microbatches, class Ranks>
  Totals(Objective& objective, Model& model, const Microbatches& microbatches, Ranks& ranks,
         bool is_first_step)
      : first_step_(is_first_step), single_(std::size(microbatches) == 1 && ranks.ranks() == 1) {
    if constexpr (requires { objective.count(model, *std::begin(microbatches)); }) {
      if (single_ && !first_step_) return;  // the loss itself has the count
      for (const auto& microbatch : microbatches) expect(objective.count(model, microbatch));
      for (Count& count : known_) {
        count = ranks.sum(count);
        refuse_zero(count);
      }
    }
  }

  /// Adds a microbatch's sums. `roots` are then those that backward starts from; their gradients
  /// are divided by the totals where these are known already.
  void add(const Loss& loss, Roots& roots) {
    roots.clear();
    if (value_.parts.empty()) detail::check_term_names(loss);
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

  /// After the last backward: divides the gradients by what is not divided yet. At the first step
  /// it also compares `count(batch)` with the counts of the losses.
  template <class Ranks>
  void finish(StepGradients& gradients, Ranks& ranks, detail::DeferredCheck& deferred) {
    if (late() || (first_step_ && !known_.empty()))
      for (auto& part : value_.parts) part.count = ranks.sum(part.count);
    if (late()) {
      refuse_zero(value_.parts[0].count);
      gradients.divide(value_.parts[0].count.tensor(value_.parts[0].sum));
    }
    if (known_.empty()) return;
    for (std::size_t i = 0; i < value_.parts.size(); ++i) {
      if (first_step_) check_known(i, deferred);
      value_.parts[i].count = known(i);
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
    if (i < known_.size()) known_[i] += count;
    else known_.push_back(count);
  }
  static void refuse_zero(const Count& count) {
    if (count.readable() && !(count.value() > 0))
      throw BadBatch(
          "loss: its count is " + std::to_string(count.value()) +
          "; it must be above 0. If every target of the batch is masked or ignored, skip the "
          "batch; otherwise return the number of items that the sum is over.");
  }
  static void check_term(const std::string& name, const at::Tensor& sum) {
    if (sum.numel() != 1)
      throw BadModel("loss: the sum of term `" + name + "` has shape " + c10::str(sum.sizes()) +
                     ", not one number. Reduce it, e.g. with at::Reduction::Sum.");
  }
  [[noreturn]] static void refuse_unequal_late(const std::string& name) {
    throw BadModel("loss: term `" + name +
                   "` has another count than the first term, and the totals are not known "
                   "before backward. Give the model `count(batch)` with one number per term.");
  }

  bool late() const { return known_.empty() && !single_; }
  /// `count(batch)` may return one number for all terms, or one per term.
  const Count& known(std::size_t i) const { return known_.size() == 1 ? known_[0] : known_.at(i); }
  const Count& divisor(std::size_t i, const Count& own) const {
    if (late()) return own;
    if (!known_.empty()) {
      if (known_.size() != 1 && i >= known_.size())
        throw BadModel(
            "loss: count(batch) returns " + std::to_string(known_.size()) +
            " counts, and the loss has more terms. Return one per term, or one for all.");
      return known(i);
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
      if (part.name != name) refuse_changed_name(name, part.name);
      if (part.scale != scale) refuse_changed_scale(name, part.scale, scale);
      part.sum = part.sum + sum;
      part.count += count;
    }
  }
  [[noreturn]] static void refuse_changed_name(const std::string& name, const std::string& before) {
    throw BadModel("loss: term `" + name + "` takes the place of term `" + before +
                   "` of the microbatch before. Return the same terms in the same order.");
  }
  [[noreturn]] static void refuse_changed_scale(const std::string& name, double before,
                                                double now) {
    throw BadModel(
        "loss: the scale of term `" + name + "` is " + c10::str(now) + " and was " +
        c10::str(before) +
        " in the microbatch before. Multiply a factor that changes within a step into the sum.");
  }
  void check_known(std::size_t i, detail::DeferredCheck& deferred) const {
    const auto& part = value_.parts[i];
    auto raise = [i] {
      throw BadModel("loss: count(batch) returns another number than Loss::count of term " +
                     std::to_string(i) + ". Both must count the same items.");
    };
    if (known(i).readable() && part.count.readable()) {
      if (known(i).value() != part.count.value()) raise();
    } else {
      auto differ = known(i).tensor(part.sum).ne(part.count.tensor(part.sum));
      deferred.expect_zero(differ.to(at::kFloat), raise);
    }
  }

  bool first_step_, single_;          // one microbatch on one rank
  c10::SmallVector<Count, 1> known_;  // one per term, or one for all
  LossValue value_;                   // with the counts so far
};

}  // namespace ikebana
