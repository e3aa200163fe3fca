#pragma once
// Moving averages of tensors, updated in place.
#include <algorithm>
#include <array>
#include <ikebana/average/device_update.hpp>
#include <ikebana/average/windows.hpp>

namespace ikebana::detail {

/// The averages of a list of tensors; each is made when its tensor is added. Where a storage keeps
/// the state of optimizers, it keeps averages too, and they are updated in its windows.
class Averages {
 public:
  /// `policy` names what averages, for errors.
  explicit Averages(const char* policy = "EMA") : policy_(policy) {}

  /// Before any is made. Asks the storage for the space of these tensors' averages.
  void store_in(StateStorage* storage, const Tensors& values) {
    storage_ = storage;
    for (const at::Tensor& value : values)
      if (storage_ != nullptr && can_average(value)) storage_->reserve_state(average_like(value));
  }
  const Tensors& all() const { return averages_; }
  bool any() const noexcept {
    for (const at::Tensor& average : averages_)
      if (average.defined()) return true;
    return false;
  }
  void resize(std::size_t n) { averages_.resize(n), values_.resize(n), placed_.resize(n); }
  /// False for a sparse tensor, and one whose elements share memory, as an expanded one.
  static bool can_average(const at::Tensor& value) {
    return value.layout() == at::kStrided && at::has_internal_overlap(value) != at::MemOverlap::Yes;
  }
  /// Averages `value` as tensor `i` from now on. A new average starts as a copy of it.
  void add(std::size_t i, const at::Tensor& value) {
    if (!averages_[i].defined()) {
      if (recording()) refuse_recording();
      made_.push_back(i);
      averages_[i] = average_like(value).copy_(value.detach());
      place(i);
      if (storage_ != nullptr) storage_->end_use({value});
    }
    if (!values_[i].is_same(value)) values_[i] = value, is_sorted_ = false;
  }
  /// Throws BadModel where a tensor's shape, dtype or device is not that of its average.
  template <class Name>
  void check(const Name& name) const {
    for (std::size_t i = 0; i < averages_.size(); ++i)
      if (averages_[i].defined() && values_[i].defined() && !fits(i))
        throw BadModel(std::string(policy_) + ": `" + name(i) +
                       "` changed its shape, dtype or device after its average was made. Change "
                       "the model before the trainer is made.");
  }
  /// Forgets all averages: until the next update, each tensor is its own average.
  void clear() noexcept {
    for (auto* list : {&averages_, &values_, &placed_})
      for (auto& t : *list) t.reset();
    on_device_.clear();
    for (auto* windows : all_windows()) windows->clear();
    is_sorted_ = false;
  }
  /// Makes all allocations of the update.
  void prepare(const AverageFlags& flags) {
    sort_if_needed();
    if (flags.on_host) return;
    on_device_.prepare(flags, [this](const auto& f, const auto& g) { each(f, g); });
  }
  /// Allocates nothing on a CPU: autograd's layer of the dispatcher would copy lists.
  void update(const AverageFlags& flags) noexcept {
    at::AutoDispatchBelowAutograd below;
    made_.clear();
    if (!flags.on_host)
      return on_device_.update([this](const auto& f, const auto& g) { each(f, g); });
    if (flags.is_rejected) return;
    for (const AverageWindow& some : copied_) copy(some);
    for (const AverageWindow& some : wide_) {
      const AverageWindowInUse use(windows(), some);
      for (std::size_t j = 0; j < some.averages.size(); ++j)
        some.averages[j].lerp_(some.as_fp32[j].copy_(some.values[j]),
                               flags.is_first ? 1 : flags.weight);
    }
    for (const AverageWindow& some : lerped_) {
      if (flags.is_first) {
        copy(some);
        continue;
      }
      const AverageWindowInUse use(windows(), some);
      at::_foreach_lerp_(some.averages, some.values, flags.weight);
    }
  }
  /// Keeps the averages that were made since the last update, before one.
  void keep_made() noexcept { made_.clear(); }
  /// Frees the averages that were made since the last update, in a step that failed.
  void abort() noexcept {
    for (std::size_t i : made_) averages_[i].reset(), values_[i].reset(), placed_[i].reset();
    if (!made_.empty()) is_sorted_ = false;
    made_.clear();
  }
  /// Exchanges the elements of averages and values, so that tensors that share memory with a value
  /// see the average. A second call, with `back`, restores both, in the other order, since values
  /// may share memory. An FP32 average of a 16-bit value is only copied to it, and scratch keeps
  /// the value's bits meanwhile.
  void exchange(Tensors& scratch, bool back) noexcept {
    auto one = [&](std::size_t i) { exchange(i, scratch[i], back); };
    auto each = [&](const AverageWindow& some) {
      const AverageWindowInUse use(windows(), some, /*writes_values=*/true);
      if (!back) std::for_each(some.indices.begin(), some.indices.end(), one);
      else std::for_each(some.indices.rbegin(), some.indices.rend(), one);
    };
    const auto lists = all_windows();
    if (!back)
      for (const auto* list : lists) std::for_each(list->begin(), list->end(), each);
    else
      for (auto list = lists.rbegin(); list != lists.rend(); ++list)
        std::for_each((*list)->rbegin(), (*list)->rend(), each);
  }
  /// Between the two calls of an exchange: the values are what is averaged from now on.
  void take_values() {
    for (const AverageWindow& some : wide_)  // the elements of all others are exchanged
      for (std::size_t j = 0; j < some.averages.size(); ++j)
        some.averages[j].copy_(some.values[j].detach());
  }
  /// Scratch of an exchange: the size of the largest tensor of each dtype and device, and that of
  /// all 16-bit values.
  Tensors scratch() {
    sort_if_needed();
    Tensors exchanged = averages_, own(averages_.size());
    for (std::size_t i = 0; i < averages_.size(); ++i)
      if (averages_[i].defined() && values_[i].defined() && average_is_wide(values_[i]))
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
  StateStorage* windows() const { return window_bytes_ > 0 ? storage_ : nullptr; }
  void copy(const AverageWindow& some) const noexcept {
    const AverageWindowInUse use(windows(), some);
    for (std::size_t j = 0; j < some.averages.size(); ++j) some.averages[j].copy_(some.values[j]);
  }
  void exchange(std::size_t i, at::Tensor& scratch, bool back) noexcept {
    at::Tensor value = values_[i].variable_data();  // autograd sees no in-place change
    const bool keeps_average = average_is_wide(values_[i]);
    if (!keeps_average || !back) scratch.copy_(value), value.copy_(averages_[i]);
    if (keeps_average && back) value.copy_(scratch);
    if (!keeps_average) averages_[i].copy_(scratch);
  }
  void state_of(Archive& archive, std::size_t i, const std::string& name, const at::Tensor& value) {
    const std::string own_name = name + ".average";
    bool is_saved = false;
    if (average_is_wide(value)) {
      at::Tensor rounded;
      if (averages_[i].defined() && archive.saving()) rounded = averages_[i].to(value.dtype());
      const bool is_evaluated = archive.evaluated(name, rounded, value.detach());
      is_saved = archive.optional(own_name, averages_[i], average_like(value));
      if (is_evaluated && !is_saved) archive.add_missing(own_name);
    } else {
      is_saved = archive.evaluated(name, averages_[i], average_like(value));
      if (!is_saved && !archive.saving())
        is_saved = archive.optional(own_name, averages_[i], average_like(value));
    }
    if (is_saved && archive.loading()) values_[i] = value;
  }

  [[noreturn]] void refuse_recording() const {
    throw BadValue(
        std::string(policy_) +
        ": this step is the first that averages one of the tensors, and it is recorded: each "
        "replay would begin the average anew. Make an ordinary step first.");
  }
  bool fits(std::size_t i) const {
    const at::Tensor &value = values_[i], &average = averages_[i];
    const at::ScalarType type = value.scalar_type();
    return value.sizes() == average.sizes() && value.device() == average.device() &&
           average.scalar_type() == (average_is_wide(value) ? at::kFloat : type) &&
           (!is_sorted_ || type == types_[i]);
  }
  std::array<std::vector<AverageWindow>*, 3> all_windows() { return {&lerped_, &copied_, &wide_}; }

  /// Floating-point and complex values are averaged; integers, which are counters, are copied.
  void sort_if_needed() {
    const std::int64_t limit = storage_ == nullptr ? 0 : storage_->window_bytes();
    if (is_sorted_ && limit == window_bytes_) return;
    on_device_.clear();
    for (auto* windows : all_windows()) windows->clear();
    types_.assign(averages_.size(), at::ScalarType::Undefined);
    window_bytes_ = limit;
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      place(i);
      types_[i] = values_[i].scalar_type();
      const bool is_averaged = averages_[i].is_floating_point() || averages_[i].is_complex();
      auto& windows = average_is_wide(values_[i]) ? wide_ : is_averaged ? lerped_ : copied_;
      const auto bytes = static_cast<std::int64_t>(averages_[i].nbytes());
      if (windows.empty() || (limit > 0 && windows.back().bytes + bytes > limit))
        windows.emplace_back();
      windows.back().add(i, averages_[i], values_[i]);
    }
    share_fp32(wide_);
    is_sorted_ = true;
  }
  /// A new one, or one of a loaded state, goes to the memory of the storage.
  void place(std::size_t i) {
    at::Tensor& average = averages_[i];
    if (storage_ != nullptr && !placed_[i].is_same(average))
      placed_[i] = average = storage_->place_state(average);
  }
  /// Calls `averaged(average, value, as_fp32)` for each, then `copied(average, value)`.
  template <class F, class G>
  void each(const F& averaged, const G& copied) {
    for (auto* windows : {&lerped_, &wide_})
      for (AverageWindow& some : *windows)
        for (std::size_t j = 0; j < some.averages.size(); ++j)
          averaged(some.averages[j], some.values[j],
                   some.as_fp32.empty() ? at::Tensor() : some.as_fp32[j]);
    for (AverageWindow& some : copied_)
      for (std::size_t j = 0; j < some.averages.size(); ++j)
        copied(some.averages[j], some.values[j]);
  }
  const char* policy_;
  StateStorage* storage_ = nullptr;
  Tensors averages_, values_, placed_;
  std::vector<AverageWindow> lerped_, copied_,
      wide_;                       // of the defined ones, by how they are updated
  std::int64_t window_bytes_ = 0;  // that these were made for; 0: one of all
  DeviceUpdate on_device_;
  std::vector<at::ScalarType> types_;  // of the values, when they were sorted
  std::vector<std::size_t> made_;      // since the last update
  bool is_sorted_ = false;
};

}  // namespace ikebana::detail
