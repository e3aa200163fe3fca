#pragma once
// Moving averages of tensors, updated in place.
#include <array>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Whether the step is rejected, whether it is the first, and the weight of the new value. If only
/// the device knows, they are tensors, which are made before the update.
struct AverageFlags {
  bool on_host = true, is_first = true, is_rejected = false;
  double weight = 1;  ///< of the new value: 1 - decay
  /// On the device, if on_host is false; `updates_on_device` is the number of updates, 0 or 1.
  at::Tensor rejected_on_device, weight_on_device, updates_on_device;

  AverageFlags() = default;
  AverageFlags(const at::Tensor& found_inf, const at::Tensor& updates, double decay) {
    on_host = readable(updates) && (!found_inf.defined() || readable(found_inf));
    weight = 1 - decay;
    if (on_host) {
      is_first = updates.item<std::int64_t>() == 0;
      is_rejected = found_inf.defined() && number(found_inf) != 0;
    } else {
      rejected_on_device =
          found_inf.defined() ? found_inf != 0 : at::zeros_like(updates, at::kBool);
      weight_on_device = at::where(updates == 0, 1.0, weight);
      updates_on_device = rejected_on_device.logical_not().to(at::kLong);
    }
  }
  void count(at::Tensor& updates) const noexcept {
    if (!on_host) updates.add_(updates_on_device);
    else if (!is_rejected) *updates.data_ptr<std::int64_t>() += 1;
  }
};

/// The averages of a list of tensors; each is made when its tensor is added.
class Averages {
 public:
  const Tensors& all() const { return averages_; }
  void resize(std::size_t n) { averages_.resize(n), values_.resize(n); }
  /// False for a sparse tensor, and one whose elements share memory, as an expanded one.
  static bool can_average(const at::Tensor& value) {
    return value.layout() == at::kStrided && at::has_internal_overlap(value) != at::MemOverlap::Yes;
  }
  /// Averages `value` as tensor `i` from now on. A new average starts as a copy of it.
  void add(std::size_t i, const at::Tensor& value) {
    if (!averages_[i].defined()) {
      if (recording()) refuse_recording();
      made_.push_back(i);
      averages_[i] = like(value).copy_(value.detach());
    }
    if (values_[i].is_same(value)) return;
    values_[i] = value;
    is_sorted_ = false;
  }
  /// Throws BadModel where a tensor has another shape, dtype or device than its average was made
  /// for.
  template <class Name>
  void check(const Name& name) const {
    for (std::size_t i = 0; i < averages_.size(); ++i)
      if (averages_[i].defined() && values_[i].defined() && !fits(i))
        throw BadModel("EMA: `" + name(i) +
                       "` changed its shape, dtype or device after its average was made. Change "
                       "the model before the trainer is made.");
  }
  /// Forgets all averages: until the next update, each tensor is its own average.
  void clear() noexcept {
    for (auto* list : {&averages_, &values_})
      for (auto& t : *list) t.reset();
    for (auto* list : lists()) list->clear();
    is_sorted_ = false;
  }
  /// Makes all allocations of the update.
  void prepare(const AverageFlags& flags) {
    if (!is_sorted_) sort();
    if (!flags.on_host) prepare_on_device(flags);
  }
  /// Allocates nothing on a CPU: autograd's layer of the dispatcher, which copies lists, is left
  /// out.
  void update(const AverageFlags& flags) noexcept {
    at::AutoDispatchBelowAutograd below;
    made_.clear();
    if (!flags.on_host) return update_on_device();
    if (flags.is_rejected) return;
    for (std::size_t j = 0; j < copied_averages_.size(); ++j)
      copied_averages_[j].copy_(copied_values_[j]);
    for (std::size_t j = 0; j < wide_averages_.size(); ++j)
      wide_averages_[j].lerp_(wide_as_fp32_[j].copy_(wide_values_[j]),
                              flags.is_first ? 1 : flags.weight);
    if (lerped_averages_.empty()) return;
    if (!flags.is_first) return at::_foreach_lerp_(lerped_averages_, lerped_values_, flags.weight);
    for (std::size_t j = 0; j < lerped_averages_.size(); ++j)
      lerped_averages_[j].copy_(lerped_values_[j]);
  }
  /// Frees the averages that were made since the last update, in a step that failed.
  void abort() noexcept {
    for (std::size_t i : made_) averages_[i].reset(), values_[i].reset();
    if (!made_.empty()) is_sorted_ = false;
    made_.clear();
  }
  /// Exchanges the elements of averages and values, so that tensors that share memory with a value
  /// see the average. A second call, with `back`, restores both. An FP32 average of a 16-bit value
  /// is only copied to it, and scratch keeps the value's bits meanwhile.
  void exchange(Tensors& scratch, bool back) noexcept {
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      at::Tensor value = values_[i].variable_data();  // autograd sees no in-place change
      const bool keeps_average = is_wide(values_[i]);
      if (!keeps_average || !back) scratch[i].copy_(value), value.copy_(averages_[i]);
      if (keeps_average && back) value.copy_(scratch[i]);
      if (!keeps_average) averages_[i].copy_(scratch[i]);
    }
  }
  /// Scratch of an exchange: the size of the largest tensor of each dtype and device, and that of
  /// all 16-bit values.
  Tensors scratch() const {
    Tensors exchanged = averages_, own(averages_.size());
    for (std::size_t i = 0; i < averages_.size(); ++i)
      if (averages_[i].defined() && values_[i].defined() && is_wide(values_[i]))
        own[i] = at::empty_like(values_[i].detach()), exchanged[i].reset();
    Tensors all = shared_like(exchanged);
    for (std::size_t i = 0; i < own.size(); ++i)
      if (own[i].defined()) all[i] = own[i];
    return all;
  }

  /// In a state, averages have the names of the model's tensors (`Archive::evaluated`), 16-bit ones
  /// rounded as in an evaluation. States of former versions have them under names of their own.
  void state(Archive& archive, const Masters& all) {
    resize(all.names.size());
    for (std::size_t i = 0; i < all.names.size(); ++i)
      archive.rows_of(all.slices, i, [&] { state_of(archive, i, all.names[i], all.values[i]); });
    is_sorted_ = false;
  }

 private:
  void state_of(Archive& archive, std::size_t i, const std::string& name, const at::Tensor& value) {
    const std::string own_name = name + ".average";
    bool is_saved = false;
    if (is_wide(value)) {
      at::Tensor rounded;
      if (averages_[i].defined() && archive.saving()) rounded = averages_[i].to(value.dtype());
      const bool is_evaluated = archive.evaluated(name, rounded, value.detach());
      is_saved = archive.optional(own_name, averages_[i], like(value));
      if (is_evaluated && !is_saved) archive.add_missing(own_name);
    } else {
      is_saved = archive.evaluated(name, averages_[i], like(value));
      if (!is_saved && !archive.saving())
        is_saved = archive.optional(own_name, averages_[i], like(value));
    }
    if (is_saved && archive.loading()) values_[i] = value;
  }

  [[noreturn]] static void refuse_recording() {
    throw BadValue(
        "EMA: this step is the first that averages one of the tensors, and it is recorded: each "
        "replay would begin the average anew. Make an ordinary step first.");
  }
  /// True for 16-bit values, whose average is FP32: in 16 bits a small weight would round away.
  static bool is_wide(const at::Tensor& value) {
    return at::isReducedFloatingType(value.scalar_type());
  }
  bool fits(std::size_t i) const {
    const at::Tensor &value = values_[i], &average = averages_[i];
    const at::ScalarType type = value.scalar_type();
    return value.sizes() == average.sizes() && value.device() == average.device() &&
           average.scalar_type() == (is_wide(value) ? at::kFloat : type) &&
           (!is_sorted_ || type == types_[i]);
  }
  static at::Tensor like(const at::Tensor& value) {
    auto type = is_wide(value) ? at::kFloat : value.scalar_type();
    return at::empty_like(value.detach(), value.options().dtype(type).requires_grad(false));
  }
  /// Tensors of these shapes that share memory, to be used one after the other.
  static Tensors shared_like(const Tensors& all) {
    std::vector<at::Tensor> memory;
    auto of = [&](const at::Tensor& t) -> at::Tensor& {
      for (auto& m : memory)
        if (m.options().type_equal(t.options()) && m.device() == t.device()) return m;
      return memory.emplace_back(at::empty({0}, t.options()));
    };
    for (const auto& t : all)
      if (t.defined() && of(t).numel() < t.numel()) of(t) = at::empty({t.numel()}, t.options());
    Tensors views(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].defined()) views[i] = of(all[i]).as_strided(all[i].sizes(), all[i].strides());
    return views;
  }
  std::array<Tensors*, 10> lists() {
    return {&lerped_averages_, &lerped_values_, &copied_averages_, &copied_values_, &wide_averages_,
            &wide_values_,     &wide_as_fp32_,  &scratch_,         &weights_,       &rejected_};
  }
  /// Floating-point and complex values are averaged; integers, which are counters, are copied.
  void sort() {
    for (auto* list : lists()) list->clear();
    types_.assign(averages_.size(), at::ScalarType::Undefined);
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      types_[i] = values_[i].scalar_type();
      bool is_averaged = averages_[i].is_floating_point() || averages_[i].is_complex();
      bool wide = is_wide(values_[i]);
      (wide          ? wide_averages_
       : is_averaged ? lerped_averages_
                     : copied_averages_)
          .push_back(averages_[i]);
      (wide ? wide_values_ : is_averaged ? lerped_values_ : copied_values_).push_back(values_[i]);
    }
    wide_as_fp32_ = shared_like(wide_averages_);
    is_sorted_ = true;
  }
  void prepare_on_device(const AverageFlags& flags) {
    if (scratch_.empty()) {
      Tensors all = lerped_averages_;
      all.insert(all.end(), wide_averages_.begin(), wide_averages_.end());
      scratch_ = shared_like(all);
    }
    weights_.clear(), rejected_.clear();
    for (const auto* all : {&lerped_averages_, &wide_averages_})
      for (const auto& t : *all) weights_.push_back(flags.weight_on_device.to(t.options()));
    for (const auto* all : {&lerped_averages_, &wide_averages_, &copied_averages_})
      for (const auto& t : *all) rejected_.push_back(flags.rejected_on_device.to(t.device()));
  }
  /// Computes into scratch and selects on the device: arithmetic, such as a weight of 0, would not
  /// keep every bit if the update is rejected.
  void update_on_device() noexcept {
    std::size_t k = 0;
    auto update = [&](at::Tensor& to, const at::Tensor& from) {
      at::lerp_out(scratch_[k], to, from, weights_[k]);
      at::where_out(to, rejected_[k], to, scratch_[k]);
      ++k;
    };
    for (std::size_t j = 0; j < lerped_averages_.size(); ++j)
      update(lerped_averages_[j], lerped_values_[j]);
    for (std::size_t j = 0; j < wide_averages_.size(); ++j)
      update(wide_averages_[j], wide_as_fp32_[j].copy_(wide_values_[j]));
    for (std::size_t j = 0; j < copied_averages_.size(); ++j)
      at::where_out(copied_averages_[j], rejected_[k++], copied_averages_[j], copied_values_[j]);
  }

  Tensors averages_, values_;
  // The defined ones of both, by how they are updated:
  Tensors lerped_averages_, lerped_values_, copied_averages_, copied_values_;
  Tensors wide_averages_, wide_values_, wide_as_fp32_;  // of 16-bit values
  Tensors scratch_, weights_, rejected_;                // on the device, one per average
  std::vector<at::ScalarType> types_;                   // of the values, when they were sorted
  std::vector<std::size_t> made_;                       // since the last update
  bool is_sorted_ = false;
};

}  // namespace ikebana::detail
