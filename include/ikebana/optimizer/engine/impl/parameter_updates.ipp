#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/parameter_updates.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void ParameterUpdates::check_slices(
    const Masters& masters, c10::function_ref<bool(std::size_t)> is_updated,
    const OptimizerFields& of, c10::function_ref<void(const Masters&, std::size_t)> refuse) {
  ranks_ = masters.ranks;
  for (std::size_t i = 0; i < masters.values.size(); ++i) {
    if (!is_updated(i) || !needs_whole_) continue;
    if (ranks_ != nullptr && updates_cut_) check_cut(of, masters, i);
    else refuse(masters, i);
  }
}

IKEBANA_INLINE void ParameterUpdates::abort_updates() noexcept {
  abort_buckets();
  scratch_.release();
}

IKEBANA_INLINE void ParameterUpdates::reserve_scratch(ScratchBytes scratch_bytes) {
  each_bucket([&](Bucket& b) {
    std::int64_t max = 0;
    for (std::size_t j = 0; j < b.indices.size(); ++j) {
      const at::Tensor p = low_precision_.operand(b.parameters[j]);
      const at::Tensor g = low_precision_.operand(b.gradients[j], b.parameters[j]);
      max = std::max(max, scratch_bytes(p, g));
    }
    scratch_.reserve(max, b.parameters[0].device());
  });
}

IKEBANA_INLINE void ParameterUpdates::each_parameter(const StepGradients& gradients,
                                                     ApplyUpdate apply,
                                                     c10::function_ref<void(Bucket&)> keep) {
  keep_if([&](const Bucket& b) { return may_fail(b.parameters[0]); }, keep);
  auto update = [&](Bucket& b, const auto& divisor, const auto& found_inf) {
    const bool is_on_device = on_device(b.parameters[0]);
    if (!is_on_device && found_inf && number(*found_inf) != 0) return;
    for (std::size_t j = 0; j < b.indices.size(); ++j) {
      if (in_parts_ && !is_on_device && has_parts(b, j)) {
        update_in_parts(b, j, scratch_, divisor, apply);
        continue;
      }
      scratch_.clear();
      apply(ParameterUpdate(b, j, scratch_, divisor, is_on_device));
    }
  };
  auto put_back = [&](const UpdateCopies& copies) {
    if (gradients.found_inf.defined()) copies.put_back_if(gradients.found_inf);
  };
  update_buckets(gradients, update, /*waits_for_flag=*/false, put_back);
  put_back(copies_);
  scratch_.release();
}

IKEBANA_INLINE void ParameterUpdates::update_each(const StepGradients& gradients,
                                                  ApplyUpdate apply) {
  each_parameter(gradients, apply, keep_whole);
}

IKEBANA_INLINE void ParameterUpdates::update_cut_of(
    const OptimizerFields& of, const StepGradients& gradients,
    c10::function_ref<void(std::vector<CutParameter>&)> apply) {
  if (recording())
    throw BadValue(of.policy() +
                   ": this step is recorded, and the update of slices makes calls of all ranks, "
                   "which a replay would leave out. Leave out the policy that records steps.");
  each_bucket([&](const Bucket& b) { refuse_window(of, b); });
  keep_if([](const Bucket&) { return true; }, keep_whole);
  meet_others(of, gradients);
  count_and_update(gradients, [&](const auto& divisor, const auto& found_inf) {
    if (is_rejected(found_inf, false)) return;
    std::vector<CutParameter> all;
    each_bucket([&](Bucket& b) {
      b.copies.take();
      for (std::size_t j = 0; j < b.indices.size(); ++j)
        all.emplace_back(b, j, state_.slice(b.indices[j], {}), low_precision_, scratch_, divisor,
                         on_device(b.parameters[j]));
    });
    std::ranges::sort(all, {}, &CutParameter::index);
    apply(all);
    if (found_inf) each_bucket([&](Bucket& b) { b.copies.put_back_if(*found_inf); });
  });
  if (gradients.found_inf.defined()) copies_.put_back_if(gradients.found_inf);
  scratch_.release();
}

IKEBANA_INLINE void ParameterUpdates::meet_others(const OptimizerFields& of,
                                                  const StepGradients& gradients) {
  const auto all = exchange_in(*ranks_, "the update of " + of.policy(),
                               std::to_string(gradients.hash_of_indices()));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0]) throw_other_parameters(r);
}

IKEBANA_INLINE void ParameterUpdates::refuse_window(const OptimizerFields& of,
                                                    const Bucket& bucket) {
  if (!bucket.window.empty())
    throw BadValue(of.policy() +
                   ": its update of slices uses the state of several parameters at once, and a "
                   "policy of the recipe lets an update use it in windows. Leave that policy out, "
                   "or let its `window_bytes` be 0.");
}

IKEBANA_INLINE void ParameterUpdates::check_cut(const OptimizerFields& of, const Masters& masters,
                                                std::size_t i) const {
  const Slice& slice = masters.slices[i];
  const RowRange rows = rows_of_rank(slice.all_rows(), ranks_->rank(), ranks_->size());
  if (slice.rows.first != rows.first || slice.rows.count != rows.count)
    throw BadValue(of.policy() + ": `" + masters.names[i] +
                   "` is cut in another way than by `rows_of_rank`, by which it finds the rows of "
                   "the other ranks. Let `stored_rows` return those.");
}

}  // namespace ikebana::detail
