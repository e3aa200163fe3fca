#pragma once
// The base of optimizers for which LibTorch has no fused operator. They update one parameter after
// the other, and do what fused operators do inside: divide the gradient, and change nothing if the
// step is rejected.
#include <ikebana/optimizer/cut_parameter.hpp>
#include <ikebana/optimizer/grouped.hpp>
#include <ikebana/optimizer/update_in_parts.hpp>
#include <ikebana/ranks/step_calls.hpp>

namespace ikebana::detail {

template <class Policy>
class PerParameterOptimizer : public GroupedOptimizer<Policy> {
 public:
  using GroupedOptimizer<Policy>::GroupedOptimizer;

  /// Throws BadValue for a slice that this optimizer cannot update.
  template <class IsUpdated = EveryMaster>
  void begin(const Masters& masters, const IsUpdated& is_updated = {}) {
    ranks_ = masters.ranks;
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      if (!is_updated(i) || !needs_whole_) continue;
      if (ranks_ != nullptr && updates_cut_) check_cut(masters, i);
      else refuse_slice<Policy>(masters, i);
    }
    GroupedOptimizer<Policy>::begin(masters, is_updated);
  }
  void abort() noexcept {
    GroupedOptimizer<Policy>::abort();
    scratch_.release();
  }

 protected:
  /// True where the update uses LibTorch's operators and reads nothing on the host.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !on_host(p); }
  bool as_on_device_ = false;  ///< for tests: take the device's implementation on a CPU, too
  bool by_operators_ = false;  ///< on a CPU, too, the update uses operators, and may fail
  bool in_parts_ = false;      ///< those of large parameters part after part of their elements
  /// An element's update depends on other elements: it is given no slices, unless `updates_cut_`
  /// says that it calls `update_cut` where `ranks_` is not null.
  bool needs_whole_ = false, updates_cut_ = false;
  RankGroup* ranks_ = nullptr;  ///< among which parameters are cut; null: all are whole

  /// As `prepare_buckets`. `scratch_bytes(parameter, gradient)` is the scratch of one update.
  template <class Rate, class ScratchBytes, class... Convert>
  void prepare_each(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                    std::size_t state_slots, const ScratchBytes& scratch_bytes,
                    const Convert&... convert) {
    this->prepare_buckets(masters, gradients, rate, state_slots, convert...);
    this->each_bucket([&](Bucket& b) {
      std::int64_t max = 0;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        const at::Tensor p = this->low_precision_.operand(b.parameters[j]);
        const at::Tensor g = this->low_precision_.operand(b.gradients[j], b.parameters[j]);
        max = std::max(max, scratch_bytes(p, g));
      }
      scratch_.reserve(max, b.parameters[0].device());
    });
  }
  /// Calls `apply(update)` for each parameter. For buckets that are updated by operators,
  /// `keep(bucket)` first makes room for copies of what will change: it is put back where an
  /// operator fails, or where the device rejects the step.
  template <class Apply, class Keep>
  void each_parameter(const StepGradients& gradients, const Apply& apply, const Keep& keep) {
    this->keep_if([&](const Bucket& b) { return may_fail(b.parameters[0]); }, keep);
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
    this->update_buckets(gradients, update, /*waits_for_flag=*/false, put_back);
    put_back(this->copies_);
    scratch_.release();
  }
  /// The same, for updates that change whole parameters and all of their state.
  template <class Apply>
  void update_each(const StepGradients& gradients, const Apply& apply) {
    each_parameter(gradients, apply, keep_whole);
  }
  /// For parameters that are cut: calls `apply(parameters)` once, with all that have a gradient, in
  /// the order of masters, so that each of the ranks exchanges the same numbers (CutParameter).
  /// Whatever fails is put back from copies. One exchange, before anything changes.
  template <class Apply>
  void update_cut(const StepGradients& gradients, const Apply& apply) {
    if (recording())
      throw BadValue(type_name<Policy>() +
                     ": this step is recorded, and the update of slices makes calls of all ranks, "
                     "which a replay would leave out. Leave out the policy that records steps.");
    this->each_bucket([](const Bucket& b) { refuse_window(b); });
    this->keep_if([](const Bucket&) { return true; }, keep_whole);
    meet_others(gradients);
    this->count_and_update(gradients, [&](const auto& divisor, const auto& found_inf) {
      if (is_rejected(found_inf, false)) return;
      std::vector<CutParameter> all;
      this->each_bucket([&](Bucket& b) {
        b.copies.take();
        for (std::size_t j = 0; j < b.indices.size(); ++j)
          all.emplace_back(b, j, this->state_.slice(b.indices[j], {}), this->low_precision_,
                           scratch_, divisor, on_device(b.parameters[j]));
      });
      std::ranges::sort(all, {}, &CutParameter::index);
      apply(all);
      if (found_inf) this->each_bucket([&](Bucket& b) { b.copies.put_back_if(*found_inf); });
    });
    if (gradients.found_inf.defined()) this->copies_.put_back_if(gradients.found_inf);
    scratch_.release();
  }

 private:
  /// Throws BadModel where another rank has gradients of other parameters: they would exchange
  /// numbers of different ones.
  void meet_others(const StepGradients& gradients) {
    const auto all = exchange_in(*ranks_, "the update of " + type_name<Policy>(),
                                 std::to_string(gradients.hash_of_indices()));
    for (std::size_t r = 0; r < all.size(); ++r)
      if (all[r] != all[0]) throw_other_parameters(r);
  }
  static void refuse_window(const Bucket& bucket) {
    if (!bucket.window.empty())
      throw BadValue(
          type_name<Policy>() +
          ": its update of slices uses the state of several parameters at once, and a "
          "policy of the recipe lets an update use it in windows. Leave that policy out, "
          "or let its `window_bytes` be 0.");
  }
  void check_cut(const Masters& masters, std::size_t i) const {
    const Slice& slice = masters.slices[i];
    const RowRange rows = rows_of_rank(slice.all_rows(), ranks_->rank(), ranks_->size());
    if (slice.rows.first != rows.first || slice.rows.count != rows.count)
      throw BadValue(
          type_name<Policy>() + ": `" + masters.names[i] +
          "` is cut in another way than by `rows_of_rank`, by which it finds the rows of "
          "the other ranks. Let `stored_rows` return those.");
  }
  bool may_fail(const at::Tensor& p) const { return by_operators_ || on_device(p); }

  Scratch scratch_;
};

}  // namespace ikebana::detail
