#pragma once
// The base of ZeRO, FSDP and HSDP: master weights are slices, and gradients are reduced unit by
// unit.
#include <cstddef>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/shard/group/all_ranks.hpp>
#include <ikebana/shard/sliced/launch_order.hpp>
#include <ikebana/shard/sliced/sliced_unit.hpp>
#include <ikebana/shard/sliced/unit_agreement.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Returns the values of a policy that differ from its defaults, as a text.
template <class Policy>
std::string describe_slices(const Policy& values) {
  std::string text;
  auto add = [&](const char* name, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + "=" + value;
  };
  if (values.param_dtype) add("param_dtype", c10::toString(*values.param_dtype));
  if (values.reduce_dtype) add("reduce_dtype", c10::toString(*values.reduce_dtype));
  if (values.allow_unused_units) add("allow_unused_units", "true");
  if constexpr (requires { values.reduce_each_microbatch; })
    if (!values.reduce_each_microbatch) add("reduce_each_microbatch", "false");
  if constexpr (requires { values.reshard_after_forward; })
    if (values.reshard_after_forward)
      add("reshard_after_forward", *values.reshard_after_forward ? "true" : "false");
  if constexpr (requires { values.ordered; })
    if (values.ordered) add("ordered", *values.ordered ? "true" : "false");
  return text;
}

/// Throws BadValue for a `param_dtype` in which the precision does not gather: weights that are
/// read or exported while they are gathered must have their own values.
template <class Policy>
[[noreturn]] void refuse_param_dtype(at::ScalarType given, const std::string& name,
                                     at::ScalarType dtype) {
  throw BadValue(c10::str(type_name<Policy>(), ": param_dtype is ", given,
                          ", and the recipe's precision gathers `", name, "` in ", dtype,
                          ". Leave param_dtype out, and choose a precision that gathers in it, "
                          "such as Precision<BF16Weights>."));
}
template <class Policy>
[[noreturn]] void refuse_sparse(const std::string& name) {
  throw BadModel("step: the gradient of `" + name + "` is sparse, and " + type_name<Policy>() +
                 " cuts dense ones alone. Make the embedding with sparse(false), or write "
                 "Shard<DDP>.");
}
[[noreturn]] void refuse_late(const std::string& unit);

/// The mechanism of a policy by which each rank has some rows of each master weight. A policy with
/// `ranks_per_copy` cuts the weights among so many consecutive ranks, other policies among all. A
/// unit's gradients are reduced once in a backward pass, when the gradients of all its uses are
/// there, and the sums arrive while other units are computed.
template <class Policy>
class Sliced : public AllRanks<Policy> {
 public:
  static constexpr bool moves_parameters = true, gathers_ahead = true;
  explicit Sliced(Policy v)
      : AllRanks<Policy>(std::move(v)), groups_(connection_, ranks_per_copy(connection_.size())) {}

  Ranks ranks() {
    if (groups_.has_copies()) return {connection_, groups_.slices};
    return {connection_, connection_};
  }
  void attach(c10::Device device, const UnitTable& units) {
    attach_sliced(device, units, [](torch::nn::Module&) {});
  }
  void begin(const Masters& masters) {
    for (std::size_t k = 0; k < masters.values.size(); ++k) {
      const Unit& unit = this->units_->units()[masters.slices[k].unit];
      const auto name = std::find(unit.names.begin(), unit.names.end(), masters.names[k]);
      auto& indices = all_[unit.index].masters;
      indices.resize(unit.names.size(), -1);
      indices[static_cast<std::size_t>(name - unit.names.begin())] = static_cast<std::int64_t>(k);
    }
    masters_ = masters.values, gradient_storage_ = masters.gradient_storage;
  }
  void open_step() {
    AllRanks<Policy>::open_step();
    if (std::exchange(generation_, connection_.generation()) != connection_.generation())
      order_.reset(all_.size());  // some ranks may have made a step that others have not
    began_ = std::chrono::steady_clock::now();
  }
  void end_step(const StepGradients&, Report&) noexcept {
    if (groups_.slices.size() > 1) order_.commit();
    agreement_.set_duration(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began_));
  }
  void abort() noexcept {
    agreement_.forget();
    for (OfUnit& u : all_) u.forget();
    pending_.clear();
    is_in_microbatch_ = false;
  }
  void offer_exception(const std::exception_ptr& exception) noexcept {
    abort();
    AllRanks<Policy>::offer_exception(exception);
  }
  RowRange stored_rows(const Unit&, std::size_t, std::int64_t count) const {
    return rows_of_rank(count, groups_.slices.rank(), groups_.slices.size());
  }

  Tensors to_masters(const Unit& unit, const Tensors& full) {
    const UnitCut& cut = cut_of(unit, full);
    Tensors slices;
    for (std::size_t i = 0; i < full.size(); ++i)
      slices.push_back(cut.new_slice(i, groups_.slices.rank(), full[i].options())
                           .copy_(cut.slice(full[i], i, groups_.slices.rank())));
    return slices;
  }
  Tensors to_masters_in_place(const Unit& unit, const Tensors& full) {
    const UnitCut& cut = cut_of(unit, full);
    OfUnit& u = all_[unit.index];
    Tensors slices, whole;
    for (std::size_t i = 0; i < full.size(); ++i) {
      whole.push_back(cut.in_rows(full[i], i));
      slices.push_back(cut.slice(whole[i], i, groups_.slices.rank()));
    }
    if (u.whole.empty()) u.whole = whole, u.is_complete = true;
    return slices;
  }
  void begin_gather(const Unit& unit, const Tensors& masters) {
    OfUnit& u = all_[unit.index];
    agreement_.gather(unit.index);
    if (const auto& dtype = this->values.param_dtype)
      for (std::size_t i = 0; i < masters.size(); ++i)
        if (masters[i].is_floating_point() && masters[i].scalar_type() != *dtype)
          refuse_param_dtype<Policy>(*dtype, unit.names[i], masters[i].scalar_type());
    u.gather.emplace(groups_.slices, MessageTag::gather(unit.index), u.layout->cut, masters,
                     u.whole);
  }
  Tensors gather(const Unit& unit, const Tensors& masters) {
    OfUnit& u = all_[unit.index];
    if (std::exchange(u.is_complete, false)) return u.whole;
    if (!u.gather) begin_gather(unit, masters);
    Tensors whole = u.gather->finish(groups_.slices);
    u.gather.reset();
    return whole;
  }

  /// Is called under FSDP and HSDP, which gather while they compute. An evaluation is a call of the
  /// ranks that share a copy, and a step is a call of all ranks. Ranks that each have a whole copy
  /// gather nothing.
  void begin_forward(bool trains) {
    const bool is_of_all = trains && groups_.slices.size() > 1;
    agreement_.begin(is_of_all ? static_cast<RankGroup&>(connection_) : groups_.slices, trains);
  }
  void begin_unit(const Unit& unit) { agreement_.run(unit.index); }
  void end_forward() { agreement_.end_forward(); }

  /// Is called when a microbatch begins.
  void set_requires_gradient_sync(bool is_last) {
    end_microbatch();
    order_.begin();
    is_in_microbatch_ = true;
    syncs_ = is_last || reduces_each_microbatch();
    for (OfUnit& u : all_) u.uses = u.calls = 0, u.is_reduced = false;
    all_[0].uses = 1;  // the root is used by the loss
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (at::GradMode::is_enabled() && !recomputing() && ++all_[unit.index].uses == 1)
      order_.enter(unit.index);
    return next(std::forward<Args>(args)...);
  }
  void set_reduce_dtypes(const Unit& unit, const DTypes& dtypes) {
    all_[unit.index].dtypes = dtypes;
    if (this->values.reduce_dtype)
      for (at::ScalarType& dtype : all_[unit.index].dtypes) dtype = *this->values.reduce_dtype;
  }
  /// Begins the reduction. The sums arrive in `finish_reductions`, or before.
  Tensors reduce(const Unit& unit, const Tensors& gradients) {
    OfUnit& u = all_[unit.index];
    if (u.is_reduced) refuse_late(unit.name);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined() && gradients[i].layout() != at::kStrided)
        refuse_sparse<Policy>(unit.names[i]);
    u.add(gradients);
    if (u.calls == u.uses && syncs_) launch_ready(/*has_ended=*/false);
    return Tensors(gradients.size());
  }
  void finish_reductions(const Masters&) {
    const InnerPhaseScope scope(InnerPhase::Reduce);
    const at::NoGradGuard no_grad;
    end_microbatch();
    while (!pending_.are_empty()) finish_oldest();
    for (OfUnit& u : all_) u.sent.keep(groups_.slices);
  }

 protected:
  using AllRanks<Policy>::connection_;

  template <class MakeBuffers>
  void attach_sliced(c10::Device device, const UnitTable& units, const MakeBuffers& make_buffers) {
    std::vector<std::string> names;
    for (const Unit& unit : units.units())
      names.push_back(unit.is_root() ? "the root" : "unit `" + unit.name + "`");
    connection_.name_units(std::move(names));
    AllRanks<Policy>::attach(device, units, make_buffers);
    all_.resize(units.units().size());
    order_.reset(all_.size());
  }

  using OfUnit = SlicedUnit;
  const UnitCut& cut_of(const Unit& unit, const Tensors& full) {
    OfUnit& u = all_[unit.index];
    if (!u.layout) u.layout.emplace(full, groups_, u.dtypes);
    return u.layout->cut;
  }

  ShardGroups groups_;
  UnitAgreement agreement_{connection_};
  LaunchOrder order_;
  std::vector<OfUnit> all_;  // the units' data, by unit

 private:
  static std::int64_t ranks_per_copy(std::int64_t all) {
    if constexpr (requires { Policy::ranks_per_copy; }) return Policy::ranks_per_copy;
    else return all;
  }
  bool is_ordered() const {
    if constexpr (requires { this->values.ordered; })
      return this->values.ordered.value_or(this->device_.is_cpu());
    else return true;
  }
  /// Returns false if ranks have whole gradients, which are kept anyway.
  bool reduces_each_microbatch() const {
    if (groups_.has_copies() && groups_.slices.size() == 1) return false;
    if constexpr (requires { this->values.reduce_each_microbatch; })
      return this->values.reduce_each_microbatch;
    else return false;
  }
  /// Ends a microbatch. If it is reduced, every trained unit is reduced once, also if this rank has
  /// no gradient for it: others may have one.
  void end_microbatch() {
    if (!std::exchange(is_in_microbatch_, false)) return;
    for (OfUnit& u : all_) u.end_microbatch();
    if (syncs_) launch_ready(/*has_ended=*/true);
    agreement_.end_backward();
  }
  void launch_ready(bool has_ended) {
    order_.advance(
        [&](std::size_t unit) { return has_ended || all_[unit].calls == all_[unit].uses; },
        [&](std::size_t unit) {
          if (all_[unit].is_trained()) launch(unit);
        });
  }
  void launch(std::size_t unit) {
    OfUnit& u = all_[unit];
    while (!pending_.may_begin(unit, groups_)) finish_oldest();
    Tensors gradients = std::exchange(u.local, {});
    gradients.resize(u.layout->cut.count());
    u.is_reduced = true;
    pending_.begin(
        groups_, unit,
        UnitSum(groups_, unit, *u.layout, std::move(gradients), this->device_, is_ordered()));
  }
  void finish_oldest() {
    auto [unit, sums, sent] = pending_.end_oldest(groups_);
    OfUnit& u = all_[unit];
    const auto& masters = u.masters;
    u.sent.wait(groups_.copies);  // waits for the sums of an earlier microbatch, which the other
                                  // ranks have because they sent this one
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (masters[i] < 0 || !sums[i].defined()) continue;
      const at::Tensor& master = masters_[static_cast<std::size_t>(masters[i])];
      at::Tensor& gradient = master.mutable_grad();
      at::Tensor sum = sums[i].to(master.scalar_type());
      if (gradient_storage_ != nullptr)
        sum = gradient_storage_->place_gradient(sum, static_cast<std::size_t>(masters[i]));
      if (!sum.defined()) continue;
      if (sum.device() != master.device()) sum = sum.to(master.device());
      if (gradient.defined()) gradient.add_(sum);
      else gradient = sum;
    }
    u.sent = std::move(sent);
  }
  Tensors masters_;
  GradientStorage* gradient_storage_ = nullptr;
  UnitSums pending_;
  bool syncs_ = true, is_in_microbatch_ = false;
  std::int64_t generation_ = 0;
  std::chrono::steady_clock::time_point began_ = {};  // the time when the step began
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/sliced.ipp>
#endif
