#pragma once
// The divisor of a loss: its count over all microbatches and ranks. No other code divides.
#include <ikebana/hooks.hpp>
#include <span>

namespace ikebana {

/// The sums of a step's loss, and the counts that they are divided by. Counts are known before the
/// first backward where the model or the objective has `count(batch)`, or where there is one
/// microbatch on one rank; otherwise sums are added up, and the gradients are divided once at the
/// end. `count(batch)` is compared with the counts of the losses in every step that needs it, and
/// in the first; what only a device or other ranks know, in the first and every hundredth.
class Totals {
 public:
  template <class Objective, class Model, class Microbatches, class Ranks>
  Totals(Objective& objective, Model& model, const Microbatches& microbatches, const Ranks& ranks,
         std::int64_t steps_before)
      : sampled_(steps_before % 100 == 0 || detail::recording()),
        alone_(ranks.data().size() == 1),
        single_(std::size(microbatches) == 1 && alone_) {
    if constexpr (requires { objective.count(model, *std::begin(microbatches)); }) {
      if (single_ && steps_before != 0) return;  // the loss itself has the count
      for (const auto& microbatch : microbatches) expect(objective.count(model, microbatch));
      if constexpr (requires { microbatches.has_own(); })
        for (Count& count : known_)
          if (!microbatches.has_own()) count = count.zero();  // of a dummy
    }
  }
  /// The counts that are known before backward. With several ranks they are to be added up over
  /// them before the first `add`.
  std::span<Count> counts() { return {known_.data(), known_.size()}; }
  /// Throws BadBatch where nothing is counted on any rank.
  void check_counts() const {
    for (const Count& count : known_) refuse_zero(count);
  }

  /// Adds a microbatch's sums. `roots` are then those that backward starts from; their gradients
  /// are divided by the totals where these are known already.
  void add(const Loss& loss, Roots& roots) {
    roots.clear();
    const std::size_t terms_before = value_.parts.size();
    if (terms_before == 0) detail::check_term_names(loss);
    std::size_t i = 0;
    const Count& first =
        loss.sum.defined() || loss.terms.empty() ? loss.count : loss.terms[0].count;
    detail::each_term(loss, [&](const std::string& name, const at::Tensor& sum, const Count& count,
                                double scale) {
      check_sum(name, sum);
      if (late() && !same(count, first)) refuse_unequal_late(name);
      const Count total = late() ? Count(1) : divisor(i, count);
      at::Tensor seed;
      if (sum.requires_grad()) {
        check_seed(name, total, scale, sum.scalar_type());
        seed = total.gradient(sum, scale);
        roots.sums.push_back(sum), roots.seeds.push_back(seed);
      }
      if (late() || total.readable()) seed.reset();
      // A detached sum, by a quicker way.
      remember(i++, {{name, sum.variable_data(), count, scale}, std::move(seed)});
    });
    detail::check_term_count(terms_before, i, "microbatch");
    if (roots.sums.empty())
      throw BadModel(
          "loss: it depends on no parameter that is trained. Compute it from the model's "
          "output, with gradients enabled.");
  }

  /// With several ranks: adds to `sums` this rank's sums, and the counts that are not known yet or
  /// are compared in this step. Then takes those of all ranks.
  void add_to(std::vector<at::Tensor>& sums) const {
    for (const auto& part : value_.parts) {
      sums.push_back(part.sum);
      if (late() || compares()) sums.push_back(part.count.tensor(part.sum, at::kDouble));
    }
  }
  void take(const std::vector<at::Tensor>& sums) {
    std::size_t at = 0;
    for (auto& part : value_.parts) {
      part.sum = sums[at++];
      if (!late() && !compares()) continue;
      const at::Tensor& count = sums[at++];
      part.count = detail::readable(count) ? Count(detail::number(count)) : Count(count);
    }
  }
  /// False where the host can read the sums so far, and one is not finite.
  bool is_finite() const {
    return value_.parts.empty() || !value_.readable() || value_.is_finite();
  }
  /// After the last backward: divides the gradients by what is not divided yet, and compares
  /// `count(batch)` with the counts of the losses.
  void finish(StepGradients& gradients, detail::DeferredCheck& deferred) {
    if (late()) {
      const LossValue::Part& part = value_.parts[0];
      refuse_zero(part.count);
      gradients.divide(part.count.tensor(part.sum, gradients.divisor_dtype()));
    }
    if (compares()) check_number_of_counts(value_.parts.size());
    for (std::size_t i = 0; i < value_.parts.size(); ++i) {
      if (compares()) check_known(i, deferred);
      if (!known_.empty()) value_.parts[i].count = known(i);
      if (sampled_) check_on_device(value_.parts[i], deferred);
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
    if (count.readable() && !count.is_possible()) refuse_known(count);
    if (i < known_.size()) known_[i] += count;
    else known_.push_back(count);
  }
  [[noreturn]] static void refuse_known(const Count& count) {
    throw BadBatch("loss: count(batch) returns " + c10::str(count.value()) +
                   "; it must be a number of items, from 0 to 2^63.");
  }
  static void refuse_zero(const Count& count) {
    if (count.readable() && !(count.value() > 0))
      throw BadBatch(
          "loss: its count is " + c10::str(count.value()) +
          "; it must be above 0. If every target of the batch is masked or ignored, skip the "
          "batch; otherwise return the number of items that the sum is over.");
  }
  static void check_sum(const std::string& name, const at::Tensor& sum) {
    if (sum.numel() != 1 || sum.is_complex())
      throw BadModel("loss: the sum of term `" + name + "` has shape " + c10::str(sum.sizes()) +
                     " and dtype " + c10::toString(sum.scalar_type()) +
                     ", not one real number. Reduce it, e.g. with at::Reduction::Sum.");
  }
  /// Backward starts with scale / count, which must not become 0 or infinite in the sum's dtype.
  static void check_seed(const std::string& name, const Count& total, double scale,
                         at::ScalarType type) {
    const double seed = total.readable() ? scale / total.value() : scale;
    if (scale == 0 || detail::fits(seed, type)) return;
    throw BadModel("loss: " + detail::term_text(name) + "scale is " + c10::str(scale) +
                   (total.readable() ? ", its count " + c10::str(total.value()) : std::string()) +
                   ", and backward would start with " + c10::str(seed) + ", which " +
                   c10::toString(type) +
                   " cannot hold. Correct them, or compute the sum in a wider dtype.");
  }
  [[noreturn]] static void refuse_unequal_late(const std::string& name) {
    throw BadModel("loss: term `" + name +
                   "` has another count than the first term, and the totals are not known "
                   "before backward. Give the model `count(batch)` with one number per term.");
  }

  bool late() const { return known_.empty() && !single_; }
  /// Whether `count(batch)` is compared with the counts of the losses.
  bool compares() const { return !known_.empty() && (alone_ || sampled_); }
  /// `count(batch)` may return one number for all terms, or one per term.
  const Count& known(std::size_t i) const { return known_.size() == 1 ? known_[0] : known_.at(i); }
  const Count& divisor(std::size_t i, const Count& own) const {
    if (!known_.empty()) {
      if (known_.size() != 1) check_number_of_counts(std::max(i + 1, known_.size()));
      return known(i);
    }
    refuse_zero(own);
    return own;
  }
  void check_number_of_counts(std::size_t terms) const {
    if (known_.size() != 1 && known_.size() != terms)
      throw BadModel("loss: count(batch) returns " + std::to_string(known_.size()) +
                     " counts, and the loss has another number of terms. Return one per term, or "
                     "one for all.");
  }
  void remember(std::size_t i, LossValue::Part now) {
    if (i == value_.parts.size()) return value_.parts.push_back(std::move(now));
    LossValue::Part& part = value_.parts[i];
    if (part.name != now.name) refuse_changed_name(now.name, part.name);
    if (part.scale != now.scale) refuse_changed_scale(now.name, part.scale, now.scale);
    part.sum = part.sum + now.sum;
    part.count += now.count;
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
    if (detail::without_values()) return;  // a count that the loss computes is not known
    if (known(i).readable() && part.count.readable()) {
      if (!agree(known(i).value(), part.count.value()))
        refuse_count(
            i, " (" + c10::str(known(i).value()) + ", and " + c10::str(part.count.value()) + ")");
    } else if (sampled_) {
      at::Tensor now = known(i).tensor(part.sum);
      auto differ = (now - part.count.tensor(part.sum)).abs().gt(now.abs() * 1e-6);
      deferred.expect_zero(differ.to(at::kFloat), [i] { refuse_count(i, ""); });
    }
  }
  [[noreturn]] static void refuse_count(std::size_t i, const std::string& both) {
    throw BadModel("loss: count(batch) returns another number than Loss::count of term " +
                   std::to_string(i) + both + ". Both must count the same items.");
  }
  /// Sums of weights may be rounded; numbers of items below 2^24 may not.
  static bool agree(double a, double b) {
    return a == b || ((a != std::floor(a) || b != std::floor(b) || a > 0x1p24) &&
                      std::abs(a - b) <= 1e-6 * std::abs(a));
  }
  /// What `is_possible` and `refuse_zero` check on the host.
  static void check_on_device(const LossValue::Part& part, detail::DeferredCheck& deferred) {
    if (part.count.readable()) return;
    at::Tensor count = part.count.tensor(part.sum);
    deferred.expect_zero(count.gt(0).logical_and(count.lt(0x1p63)).logical_not().to(at::kFloat),
                         [name = part.name] {
                           throw BadBatch("loss: " + detail::term_text(name) +
                                          "count is not above 0 and below 2^63. Return the number "
                                          "of items that the sum is over, and skip a batch of "
                                          "which nothing counts.");
                         });
  }

  bool sampled_;                      // this step compares what the host cannot read
  bool alone_, single_;               // one rank; and one microbatch
  c10::SmallVector<Count, 1> known_;  // one per term, or one for all
  LossValue value_;                   // with the counts so far
};

}  // namespace ikebana
