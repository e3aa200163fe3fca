#pragma once
#include <ikebana/core/totals.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE void Totals::check_counts() const {
  for (const Count& count : known_) refuse_zero(count);
}

IKEBANA_INLINE void Totals::add(const Loss& loss, Roots& roots) {
  roots.clear();
  const std::size_t terms_before = value_.parts.size();
  if (terms_before == 0) detail::check_term_names(loss);
  std::size_t i = 0;
  const Count& first = loss.sum.defined() || loss.terms.empty() ? loss.count : loss.terms[0].count;
  detail::each_term(
      loss, [&](const std::string& name, const at::Tensor& sum, const Count& count, double scale) {
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
        // `variable_data` detaches the sum in less time.
        remember(i++, {{name, sum.variable_data(), count, scale}, std::move(seed)});
      });
  detail::check_term_count(terms_before, i, "microbatch");
  if (roots.sums.empty())
    throw BadModel(
        "loss: it depends on no parameter that is trained. Compute it from the model's "
        "output, with gradients enabled.");
}

IKEBANA_INLINE void Totals::add_to(std::vector<at::Tensor>& sums) const {
  for (const auto& part : value_.parts) {
    sums.push_back(part.sum);
    if (late() || compares()) sums.push_back(part.count.tensor(part.sum, at::kDouble));
  }
}

IKEBANA_INLINE void Totals::take(const std::vector<at::Tensor>& sums) {
  std::size_t at = 0;
  for (auto& part : value_.parts) {
    part.sum = sums[at++];
    if (!late() && !compares()) continue;
    const at::Tensor& count = sums[at++];
    part.count = detail::readable(count) ? Count(detail::number(count)) : Count(count);
  }
}

IKEBANA_INLINE bool Totals::is_finite() const {
  return value_.parts.empty() || !value_.readable() || value_.is_finite();
}

IKEBANA_INLINE void Totals::finish(StepGradients& gradients, detail::DeferredCheck& deferred) {
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

IKEBANA_INLINE void Totals::expect(const std::vector<Count>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) expect(i, counts[i]);
}

IKEBANA_INLINE void Totals::expect(std::size_t i, const Count& count) {
  if (count.readable() && !count.is_possible()) refuse_known(count);
  if (i < known_.size()) known_[i] += count;
  else known_.push_back(count);
}

IKEBANA_INLINE void Totals::refuse_known(const Count& count) {
  throw BadBatch("loss: count(batch) returns " + c10::str(count.value()) +
                 "; it must be a number of items, from 0 to 2^63.");
}

IKEBANA_INLINE void Totals::refuse_zero(const Count& count) {
  if (count.readable() && !(count.value() > 0))
    throw BadBatch(
        "loss: its count is " + c10::str(count.value()) +
        "; it must be above 0. If every target of the batch is masked or ignored, skip the "
        "batch; otherwise return the number of items that the sum is over.");
}

IKEBANA_INLINE void Totals::check_sum(const std::string& name, const at::Tensor& sum) {
  if (sum.numel() != 1 || sum.is_complex())
    throw BadModel("loss: the sum of term `" + name + "` has shape " + c10::str(sum.sizes()) +
                   " and dtype " + c10::toString(sum.scalar_type()) +
                   ", not one real number. Reduce it, e.g. with at::Reduction::Sum.");
}

IKEBANA_INLINE void Totals::check_seed(const std::string& name, const Count& total, double scale,
                                       at::ScalarType type) {
  const double seed = total.readable() ? scale / total.value() : scale;
  if (scale == 0 || detail::fits(seed, type)) return;
  throw BadModel("loss: " + detail::term_text(name) + "scale is " + c10::str(scale) +
                 (total.readable() ? ", its count " + c10::str(total.value()) : std::string()) +
                 ", and backward would start with " + c10::str(seed) + ", which " +
                 c10::toString(type) +
                 " cannot hold. Correct them, or compute the sum in a wider dtype.");
}

IKEBANA_INLINE void Totals::refuse_unequal_late(const std::string& name) {
  throw BadModel("loss: term `" + name +
                 "` has another count than the first term, and the totals are not known "
                 "before backward. Give the model `count(batch)` with one number per term.");
}

IKEBANA_INLINE const Count& Totals::divisor(std::size_t i, const Count& own) const {
  if (!known_.empty()) {
    if (known_.size() != 1) check_number_of_counts(std::max(i + 1, known_.size()));
    return known(i);
  }
  refuse_zero(own);
  return own;
}

IKEBANA_INLINE void Totals::check_number_of_counts(std::size_t terms) const {
  if (known_.size() != 1 && known_.size() != terms)
    throw BadModel("loss: count(batch) returns " + std::to_string(known_.size()) +
                   " counts, and the loss has another number of terms. Return one per term, or "
                   "one for all.");
}

IKEBANA_INLINE void Totals::remember(std::size_t i, LossValue::Part now) {
  if (i == value_.parts.size()) return value_.parts.push_back(std::move(now));
  LossValue::Part& part = value_.parts[i];
  if (part.name != now.name) refuse_changed_name(now.name, part.name);
  if (part.scale != now.scale) refuse_changed_scale(now.name, part.scale, now.scale);
  part.sum = part.sum + now.sum;
  part.count += now.count;
}

IKEBANA_INLINE void Totals::refuse_changed_name(const std::string& name,
                                                const std::string& before) {
  throw BadModel("loss: term `" + name + "` takes the place of term `" + before +
                 "` of the microbatch before. Return the same terms in the same order.");
}

IKEBANA_INLINE void Totals::refuse_changed_scale(const std::string& name, double before,
                                                 double now) {
  throw BadModel(
      "loss: the scale of term `" + name + "` is " + c10::str(now) + " and was " +
      c10::str(before) +
      " in the microbatch before. Multiply a factor that changes within a step into the sum.");
}

IKEBANA_INLINE void Totals::check_known(std::size_t i, detail::DeferredCheck& deferred) const {
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

IKEBANA_INLINE void Totals::refuse_count(std::size_t i, const std::string& both) {
  throw BadModel("loss: count(batch) returns another number than Loss::count of term " +
                 std::to_string(i) + both + ". Both must count the same items.");
}

IKEBANA_INLINE bool Totals::agree(double a, double b) {
  return a == b || ((a != std::floor(a) || b != std::floor(b) || a > 0x1p24) &&
                    std::abs(a - b) <= 1e-6 * std::abs(a));
}

IKEBANA_INLINE void Totals::check_on_device(const LossValue::Part& part,
                                            detail::DeferredCheck& deferred) {
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

}  // namespace ikebana
