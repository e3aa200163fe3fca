#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana::detail {

/// Elements of a part. A few tensors of this size stay in the cache from one operator of an update
/// to the next.
inline constexpr std::int64_t elements_in_part = std::int64_t{1} << 16;

/// Returns true for a parameter of several parts whose gradient and state have its memory layout.
/// State of one element belongs to the whole parameter.
inline bool has_parts(const Bucket& b, std::size_t j) {
  const at::Tensor& p = b.parameters[j];
  if (p.numel() < 2 * elements_in_part || !p.is_non_overlapping_and_dense()) return false;
  const auto fits = [&](const at::Tensor& t) {
    return !t.defined() || t.numel() == 1 || same_layout(t, p);
  };
  return fits(b.gradients[j]) &&
         std::ranges::all_of(b.state, [&](const Tensors& slot) { return fits(slot[j]); });
}

/// Calls `apply(update)` for each part of parameter `j`, whose update of an element depends on no
/// other element. Each part begins with the same numbers of one element; the last part's result
/// stays.
inline void update_in_parts(const Bucket& all, std::size_t j, Scratch& scratch,
                            const std::optional<at::Tensor>& divisor, ApplyUpdate apply) {
  const at::Tensor p = in_memory_order(all.parameters[j]), g = in_memory_order(all.gradients[j]);
  std::vector<at::Tensor> state, numbers(all.state.size());
  for (std::size_t k = 0; k < all.state.size(); ++k) {
    const at::Tensor& t = all.state[k][j];
    const bool is_number = t.defined() && t.numel() == 1;
    state.push_back(t.defined() && !is_number ? in_memory_order(t) : t);
    if (is_number) numbers[k] = t.clone();
  }
  Bucket part{.group = all.group,
              .first_step = all.first_step,
              .numbers = all.numbers,
              .rate = all.rate,
              .lr = all.lr,
              .parameters = Tensors(1),
              .gradients = Tensors(1),
              .steps = {all.steps[j]},
              .state = std::vector<Tensors>(state.size(), Tensors(1)),
              .indices = {all.indices[j]}};
  for (std::int64_t begin = 0; begin < p.numel(); begin += elements_in_part) {
    const std::int64_t n = std::min(elements_in_part, p.numel() - begin);
    part.parameters[0] = p.narrow(0, begin, n), part.gradients[0] = g.narrow(0, begin, n);
    for (std::size_t k = 0; k < state.size(); ++k) {
      const bool is_cut = state[k].defined() && !numbers[k].defined();
      part.state[k][0] = is_cut ? state[k].narrow(0, begin, n) : state[k];
      if (numbers[k].defined()) state[k].copy_(numbers[k]);
    }
    scratch.clear();
    apply(ParameterUpdate(part, 0, scratch, divisor, /*is_on_device=*/false));
  }
}

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
  for (const Bucket& b : buckets_) {
    std::int64_t max = 0;
    for (std::size_t j = 0; j < b.indices.size(); ++j) {
      const at::Tensor p = low_precision_.operand(b.parameters[j]);
      const at::Tensor g = low_precision_.operand(b.gradients[j], b.parameters[j]);
      max = std::max(max, scratch_bytes(p, g));
    }
    scratch_.reserve(max, b.parameters[0].device());
  }
}

IKEBANA_INLINE void ParameterUpdates::update_each(const StepGradients& gradients, ApplyUpdate apply,
                                                  KeepCopies keep) {
  keep_if([&](const Bucket& b) { return may_fail(b.parameters[0]); }, keep);
  for (auto ready = ready_buckets(gradients, {.puts_back = true}); const Bucket& b : ready) {
    const bool is_on_device = on_device(b.parameters[0]);
    if (!is_on_device && ready.found_inf && number(*ready.found_inf) != 0) continue;
    for (std::size_t j = 0; j < b.indices.size(); ++j) {
      scratch_.clear();
      if (in_parts_ && !is_on_device && has_parts(b, j))
        update_in_parts(b, j, scratch_, ready.divisor, apply);
      else apply(ParameterUpdate(b, j, scratch_, ready.divisor, is_on_device));
    }
  }
  scratch_.release();
}

IKEBANA_INLINE void ParameterUpdates::update_cut_of(
    const OptimizerFields& of, const StepGradients& gradients,
    c10::function_ref<void(std::vector<CutParameter>&)> apply) {
  if (recording())
    throw BadValue(of.policy() +
                   ": this step is recorded, and the update of slices makes calls of all ranks, "
                   "which a replay would leave out. Leave out the policy that records steps.");
  for (const MasterBucket& bucket : buckets_) refuse_window(of, bucket);
  keep_if([](const Bucket&) { return true; });
  meet_others(of, gradients);
  if (const UpdateScope scope(gradients); begin_update(scope)) {
    if (!is_rejected(scope.found_inf, false)) apply_to_cut(scope, apply);
    end_update(scope, /*waits_for_flag=*/false);
  }
  if (gradients.found_inf.defined()) copies_.put_back_if(gradients.found_inf);
  scratch_.release();
}

IKEBANA_INLINE void ParameterUpdates::apply_to_cut(
    const UpdateScope& scope, c10::function_ref<void(std::vector<CutParameter>&)> apply) {
  std::vector<CutParameter> all;
  for (MasterBucket& b : buckets_) {
    b.copies.take();
    for (std::size_t j = 0; j < b.indices.size(); ++j)
      all.emplace_back(b, j, state_.slice(b.indices[j], {}), low_precision_, scratch_,
                       scope.divisor, on_device(b.parameters[j]));
  }
  std::ranges::sort(all, {}, &CutParameter::index);
  apply(all);
  if (!scope.found_inf) return;
  for (const MasterBucket& bucket : buckets_) bucket.copies.put_back_if(*scope.found_inf);
}

IKEBANA_INLINE void ParameterUpdates::meet_others(const OptimizerFields& of,
                                                  const StepGradients& gradients) {
  const auto all = exchange_in(*ranks_, "the update of " + of.policy(),
                               std::to_string(gradients.hash_of_indices()));
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0]) throw_other_parameters(r);
}

IKEBANA_INLINE void ParameterUpdates::refuse_window(const OptimizerFields& of,
                                                    const MasterBucket& bucket) {
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
