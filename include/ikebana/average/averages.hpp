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
    if (!averages_[i].defined()) averages_[i] = value.detach().clone();
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
    if (to_.empty()) return;
    if (!flags.first) return at::_foreach_lerp_(to_, from_, flags.share);
    for (std::size_t j = 0; j < to_.size(); ++j) to_[j].copy_(from_[j]);
  }
  /// Averages into the values and values into the averages, element by element: aliases of both
  /// follow. A second call undoes it.
  void exchange(Tensors& scratch) noexcept {
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      at::Tensor value = values_[i].variable_data();  // to graphs nothing happens
      scratch[i].copy_(value), value.copy_(averages_[i]), averages_[i].copy_(scratch[i]);
    }
  }
  /// Memory for an exchange, the largest tensor's once for all of its type and device.
  Tensors scratch() const { return shared_like(averages_); }

  void state(Archive& archive, const std::vector<std::string>& names, const Tensors& values) {
    resize(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      if (archive.optional(names[i] + ".average", averages_[i], values[i]) && archive.loading())
        values_[i] = values[i];
    is_sorted_ = false;
  }

 private:
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
    to_.clear(), from_.clear(), to_copy_.clear(), from_copy_.clear(), scratch_.clear();
    for (std::size_t i = 0; i < averages_.size(); ++i) {
      if (!averages_[i].defined() || !values_[i].defined()) continue;
      bool is_number = averages_[i].is_floating_point() || averages_[i].is_complex();
      (is_number ? to_ : to_copy_).push_back(averages_[i]);
      (is_number ? from_ : from_copy_).push_back(values_[i]);
    }
    is_sorted_ = true;
  }
  void prepare_there(const AverageFlags& flags) {
    if (scratch_.empty()) scratch_ = shared_like(to_);
    shares_.clear(), skips_.clear();
    for (const auto& t : to_) shares_.push_back(flags.share_there.to(t.options()));
    for (const auto* all : {&to_, &to_copy_})
      for (const auto& t : *all) skips_.push_back(flags.skip.to(t.device()));
  }
  /// What a rejected update computes is thrown away: no arithmetic keeps every bit.
  void update_there() noexcept {
    std::size_t k = 0;
    for (std::size_t j = 0; j < to_.size(); ++j) {
      at::lerp_out(scratch_[j], to_[j], from_[j], shares_[j]);
      at::where_out(to_[j], skips_[k++], to_[j], scratch_[j]);
    }
    for (std::size_t j = 0; j < to_copy_.size(); ++j)
      at::where_out(to_copy_[j], skips_[k++], to_copy_[j], from_copy_[j]);
  }

  Tensors averages_, values_;
  Tensors to_, from_, to_copy_, from_copy_;  // the defined ones, in the order of an update
  Tensors scratch_, shares_, skips_;
  bool is_sorted_ = false;
};

/// Averages and values exchanged while it lives; `publish` is called after each exchange.
template <class Publish>
class Exchanged {
 public:
  Exchanged(std::vector<Averages*> all, Publish publish) : all_(std::move(all)), publish_(publish) {
    for (auto* averages : all_) scratch_.push_back(averages->scratch());
    exchange();
  }
  ~Exchanged() { exchange(); }
  Exchanged(const Exchanged&) = delete;
  Exchanged& operator=(const Exchanged&) = delete;

 private:
  void exchange() noexcept {
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i]->exchange(scratch_[i]);
    publish_();
  }

  std::vector<Averages*> all_;
  Publish publish_;
  std::vector<Tensors> scratch_;
};

}  // namespace ikebana::detail
