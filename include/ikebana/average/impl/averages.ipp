#pragma once
#include <algorithm>
#include <ikebana/average/averages.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE AverageFlags AverageFlags::none() {
  AverageFlags flags;
  flags.is_rejected = true;
  return flags;
}

IKEBANA_INLINE void AverageFlags::count(at::Tensor& updates) const noexcept {
  if (!on_host) updates.add_(updates_on_device);
  else if (!is_rejected) *updates.data_ptr<std::int64_t>() += 1;
}

IKEBANA_INLINE bool average_is_wide(const at::Tensor& value) {
  return at::isReducedFloatingType(value.scalar_type());
}

IKEBANA_INLINE at::Tensor average_like(const at::Tensor& value) {
  auto type = average_is_wide(value) ? at::kFloat : value.scalar_type();
  return at::empty_like(value.detach(), value.options().dtype(type).requires_grad(false));
}

IKEBANA_INLINE Tensors shared_like(const Tensors& all) {
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

IKEBANA_INLINE void AverageWindow::add(std::size_t i, const at::Tensor& average,
                                       const at::Tensor& value) {
  indices.push_back(i), averages.push_back(average), values.push_back(value);
  bytes += static_cast<std::int64_t>(average.nbytes());
}

IKEBANA_INLINE void share_fp32(std::vector<AverageWindow>& windows) {
  Tensors all;
  for (const AverageWindow& some : windows)
    all.insert(all.end(), some.averages.begin(), some.averages.end());
  const Tensors scratch = shared_like(all);
  auto from = scratch.begin();
  for (AverageWindow& some : windows) {
    const auto to = from + static_cast<std::ptrdiff_t>(some.averages.size());
    some.as_fp32.assign(from, to);
    from = to;
  }
}

IKEBANA_INLINE AverageWindowInUse::AverageWindowInUse(StateStorage* storage,
                                                      const AverageWindow& some,
                                                      bool writes_values) noexcept
    : storage_(storage), some_(some) {
  if (storage_ == nullptr) return;
  storage_->begin_window(some_.averages);
  storage_->begin_use(some_.values, writes_values);
}

IKEBANA_INLINE AverageWindowInUse::~AverageWindowInUse() {
  if (storage_ == nullptr) return;
  storage_->end_window(some_.averages);
  storage_->end_use(some_.values);
}

IKEBANA_INLINE void Averages::store_in(StateStorage* storage, const Tensors& values) {
  storage_ = storage;
  for (const at::Tensor& value : values)
    if (storage_ != nullptr && can_average(value)) storage_->reserve_state(average_like(value));
}

IKEBANA_INLINE bool Averages::any() const noexcept {
  for (const at::Tensor& average : averages_)
    if (average.defined()) return true;
  return false;
}

IKEBANA_INLINE bool Averages::can_average(const at::Tensor& value) {
  return value.layout() == at::kStrided && at::has_internal_overlap(value) != at::MemOverlap::Yes;
}

IKEBANA_INLINE void Averages::add(std::size_t i, const at::Tensor& value) {
  if (!averages_[i].defined()) {
    if (recording()) refuse_recording();
    made_.push_back(i);
    averages_[i] = average_like(value).copy_(value.detach());
    place(i);
    if (storage_ != nullptr) storage_->end_use({value});
  }
  if (!values_[i].is_same(value)) values_[i] = value, is_sorted_ = false;
}

IKEBANA_INLINE void Averages::clear() noexcept {
  for (auto* list : {&averages_, &values_, &placed_})
    for (auto& t : *list) t.reset();
  on_device_.clear();
  for (auto* windows : all_windows()) windows->clear();
  is_sorted_ = false;
}

IKEBANA_INLINE void Averages::prepare(const AverageFlags& flags) {
  sort_if_needed();
  if (flags.on_host) return;
  on_device_.prepare(flags, [this](const auto& f, const auto& g) { each(f, g); });
}

IKEBANA_INLINE void Averages::update(const AverageFlags& flags) noexcept {
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

IKEBANA_INLINE void Averages::abort() noexcept {
  for (std::size_t i : made_) averages_[i].reset(), values_[i].reset(), placed_[i].reset();
  if (!made_.empty()) is_sorted_ = false;
  made_.clear();
}

IKEBANA_INLINE void Averages::exchange(Tensors& scratch, bool back) noexcept {
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

IKEBANA_INLINE void Averages::take_values() {
  for (const AverageWindow& some : wide_)  // all others have exchanged their elements
    for (std::size_t j = 0; j < some.averages.size(); ++j)
      some.averages[j].copy_(some.values[j].detach());
}

IKEBANA_INLINE Tensors Averages::scratch() {
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

IKEBANA_INLINE void Averages::state(Archive& archive, const Masters& all) {
  resize(all.names.size());
  for (std::size_t i = 0; i < all.names.size(); ++i)
    archive.rows_of(all.slices, i, [&] { state_of(archive, i, all.names[i], all.values[i]); });
  is_sorted_ = false;
}

IKEBANA_INLINE void Averages::copy(const AverageWindow& some) const noexcept {
  const AverageWindowInUse use(windows(), some);
  for (std::size_t j = 0; j < some.averages.size(); ++j) some.averages[j].copy_(some.values[j]);
}

IKEBANA_INLINE void Averages::exchange(std::size_t i, at::Tensor& scratch, bool back) noexcept {
  at::Tensor value = values_[i].variable_data();  // autograd sees no in-place change
  const bool keeps_average = average_is_wide(values_[i]);
  if (!keeps_average || !back) scratch.copy_(value), value.copy_(averages_[i]);
  if (keeps_average && back) value.copy_(scratch);
  if (!keeps_average) averages_[i].copy_(scratch);
}

IKEBANA_INLINE void Averages::state_of(Archive& archive, std::size_t i, const std::string& name,
                                       const at::Tensor& value) {
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

IKEBANA_INLINE void Averages::refuse_recording() const {
  throw BadValue(
      std::string(policy_) +
      ": this step is the first that averages one of the tensors, and it is recorded: each "
      "replay would begin the average again. Make an ordinary step first.");
}

IKEBANA_INLINE bool Averages::fits(std::size_t i) const {
  const at::Tensor &value = values_[i], &average = averages_[i];
  const at::ScalarType type = value.scalar_type();
  return value.sizes() == average.sizes() && value.device() == average.device() &&
         average.scalar_type() == (average_is_wide(value) ? at::kFloat : type) &&
         (!is_sorted_ || type == types_[i]);
}

IKEBANA_INLINE void Averages::sort_if_needed() {
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

IKEBANA_INLINE void Averages::place(std::size_t i) {
  at::Tensor& average = averages_[i];
  if (storage_ != nullptr && !placed_[i].is_same(average))
    placed_[i] = average = storage_->place_state(average);
}

}  // namespace ikebana::detail
