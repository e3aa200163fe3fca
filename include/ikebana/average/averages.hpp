#pragma once
// Averages of tensors, updated in place; and what only a device knows of an update.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Whether there is an update, whether it is the first, and how much of it counts. Where the host
/// does not know, they are tensors, made before the update.
struct AverageFlags {
  bool on_host = true, first = true, none = false;
  double share = 1;  ///< of the new value
  at::Tensor skip, share_there, one_there;

  AverageFlags() = default;
  AverageFlags(const at::Tensor& found_inf, const at::Tensor& updates, double decay) {
    on_host = readable(updates) && (!found_inf.defined() || readable(found_inf));
    share = 1 - decay;
    if (on_host) {
      first = updates.item<std::int64_t>() == 0;
      none = found_inf.defined() && number(found_inf) != 0;
    } else {
      skip = found_inf.defined() ? found_inf != 0 : at::zeros_like(updates, at::kBool);
      share_there = at::where(updates == 0, 1.0, share);
      one_there = skip.logical_not().to(at::kLong);
    }
  }
  void count(at::Tensor& updates) const noexcept {
    if (!on_host) updates.add_(one_there);
    else if (!none) *updates.data_ptr<std::int64_t>() += 1;
  }
};

/// An average of each of some tensors, made when it is first wanted.
class Averages {
 public:
  const Tensors& all() const { return averages_; }
  void resize(std::size_t n) { averages_.resize(n), values_.resize(n); }
  /// From now on the average of `value`, which begins where the value is.
  void add(std::size_t i, const at::Tensor& value) {
    if (!averages_[i].defined()) averages_[i] = like(value).copy_(value.detach());
    if (values_[i].is_same(value)) return;
    values_[i] = value;
    is_sorted_ = false;
  }
  /// Every allocation of the update.
  void prepare(const AverageFlags& flags) {
    if (!is_sorted_) sort();
    if (!flags.on_host) prepare_there(flags);
  }
  void update(const AverageFlags& flags) noexcept {
    at::NoGradGuard no_grad;
    if (!flags.on_host) return update_there();
    if (flags.none) return;
    for (std::size_t j = 0; j < to_copy_.size(); ++j) to_copy_[j].copy_(from_copy_[j]);
    for (std::size_t j = 0; j < to_wide_.size(); ++j)
      to_wide_[j].lerp_(wide_[j].copy_(from_wide_[j]), flags.first ? 1 : flags.share);
    if (to_.empty()) return;
    if (!flags.first) return at::_foreach_lerp_(to_, from_, flags.share);
    for (std::size_t j = 0; j < to_.size(); ++j) to_[j].copy_(from_[j]);
  }
  /// Averages into the values and values into the averages, element by element: aliases of both
  /// follow. A second call, with `back`, undoes it. What holds more digits than its value stays,
  /// and the value's own bits wait in scratch.
  void exchange(Tensors& scratch, bool back) noexcept {
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      at::Tensor value = values_[i].variable_data();  // to graphs nothing happens
      const bool stays = is_wide(values_[i]);
      if (!stays || !back) scratch[i].copy_(value), value.copy_(averages_[i]);
      if (stays && back) value.copy_(scratch[i]);
      if (!stays) averages_[i].copy_(scratch[i]);
    }
  }
  /// Memory for an exchange, the largest tensor's once for all of its type and device.
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

  void state(Archive& archive, const std::vector<std::string>& names, const Tensors& values) {
    resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      if (archive.optional(names[i] + ".average", averages_[i], like(values[i])) &&
          archive.loading())
        values_[i] = values[i];
    is_sorted_ = false;
  }

 private:
  /// True where the value's own 16 bits would not move by a small share of a difference.
  static bool is_wide(const at::Tensor& value) {
    return at::isReducedFloatingType(value.scalar_type());
  }
  static at::Tensor like(const at::Tensor& value) {
    auto type = is_wide(value) ? at::kFloat : value.scalar_type();
    return at::empty_like(value.detach(), value.options().dtype(type).requires_grad(false));
  }
  /// Tensors of these shapes in common memory.
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
  /// Numbers are averaged; integers, which count something, are copied.
  void sort() {
    for (auto* list : {&to_, &from_, &to_copy_, &from_copy_, &to_wide_, &from_wide_, &scratch_})
      list->clear();
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      bool is_number = averages_[i].is_floating_point() || averages_[i].is_complex();
      bool wide = is_wide(values_[i]);
      (wide ? to_wide_ : is_number ? to_ : to_copy_).push_back(averages_[i]);
      (wide ? from_wide_ : is_number ? from_ : from_copy_).push_back(values_[i]);
    }
    wide_ = shared_like(to_wide_);
    is_sorted_ = true;
  }
  void prepare_there(const AverageFlags& flags) {
    if (scratch_.empty()) {
      Tensors all = to_;
      all.insert(all.end(), to_wide_.begin(), to_wide_.end());
      scratch_ = shared_like(all);
    }
    shares_.clear(), skips_.clear();
    for (const auto* all : {&to_, &to_wide_})
      for (const auto& t : *all) shares_.push_back(flags.share_there.to(t.options()));
    for (const auto* all : {&to_, &to_wide_, &to_copy_})
      for (const auto& t : *all) skips_.push_back(flags.skip.to(t.device()));
  }
  /// What a rejected update computes is thrown away: no arithmetic keeps every bit.
  void update_there() noexcept {
    std::size_t k = 0;
    auto move = [&](at::Tensor& to, const at::Tensor& from) {
      at::lerp_out(scratch_[k], to, from, shares_[k]);
      at::where_out(to, skips_[k], to, scratch_[k]);
      ++k;
    };
    for (std::size_t j = 0; j < to_.size(); ++j) move(to_[j], from_[j]);
    for (std::size_t j = 0; j < to_wide_.size(); ++j)
      move(to_wide_[j], wide_[j].copy_(from_wide_[j]));
    for (std::size_t j = 0; j < to_copy_.size(); ++j)
      at::where_out(to_copy_[j], skips_[k++], to_copy_[j], from_copy_[j]);
  }

  Tensors averages_, values_;
  Tensors to_, from_, to_copy_, from_copy_;  // the defined ones, in the order of an update
  Tensors to_wide_, from_wide_, wide_;       // averages with more digits than their values
  Tensors scratch_, shares_, skips_;
  bool is_sorted_ = false;
};

/// Averages and values exchanged while it lives; `refresh_gathered` is called after each exchange.
template <class Publish>
class Exchanged {
 public:
  Exchanged(std::vector<Averages*> all, Publish refresh_gathered) : all_(std::move(all)), refresh_gathered_(refresh_gathered) {
    for (auto* averages : all_) scratch_.push_back(averages->scratch());
    exchange(/*back=*/false);
  }
  ~Exchanged() { exchange(/*back=*/true); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  void exchange(bool back) noexcept {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i]->exchange(scratch_[i], back);
    refresh_gathered_();
  }

  std::vector<Averages*> all_;
  Publish refresh_gathered_;
  std::vector<Tensors> scratch_;
};

}  // namespace ikebana::detail
