#pragma once
// Defines moving averages of tensors, which are updated in place.
#include <array>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// The decisions of an update: whether the average stays as it is, whether it begins with this
/// value, and the weight of the new value. If only the device knows them, they are tensors, which
/// are made before the update.
struct AverageFlags {
  bool on_host = true, is_first = true, is_rejected = false;
  double weight = 1;  ///< the weight of the new value
  /// These are defined if on_host is false; `updates_on_device` is the number of updates, 0 or 1.
  at::Tensor rejected_on_device, weight_on_device, updates_on_device;

  AverageFlags() = default;
  /// `updates` is the number of averages so far. `weight_of` maps this number, a double or a tensor
  /// of one element, to the weight of the next value. If `first_copies` is true, the first weight
  /// is 1.
  template <class WeightOf>
  AverageFlags(const at::Tensor& found_inf, const at::Tensor& updates, bool first_copies,
               const WeightOf& weight_of) {
    on_host = readable(updates) && (!found_inf.defined() || readable(found_inf));
    if (on_host) {
      is_first = first_copies && number(updates) == 0;
      is_rejected = found_inf.defined() && number(found_inf) != 0;
      weight = weight_of(number(updates));
    } else {
      rejected_on_device =
          found_inf.defined() ? found_inf != 0 : at::zeros_like(updates, at::kBool);
      weight_on_device = weight_of(updates.to(at::kDouble));
      if (first_copies) weight_on_device = weight_on_device.masked_fill(updates == 0, 1);
      updates_on_device = rejected_on_device.logical_not().to(at::kLong);
    }
  }
  /// Returns the flags of a step that takes no average.
  static AverageFlags none();
  void count(at::Tensor& updates) const noexcept;
};

/// Returns true for 16-bit values, whose average is FP32: in 16 bits a small weight would round
/// away.
bool average_is_wide(const at::Tensor& value);
/// Allocates memory for the average of a value.
at::Tensor average_like(const at::Tensor& value);
/// Returns tensors of these shapes that share memory, to be used one after the other.
Tensors shared_like(const Tensors& all);

/// Averages that are updated together, with the values that they average.
struct AverageWindow {
  std::vector<std::size_t> indices = {};
  Tensors averages = {}, values = {}, as_fp32 = {};  // as_fp32: 16-bit values in FP32
  std::int64_t bytes = 0;

  void add(std::size_t i, const at::Tensor& average, const at::Tensor& value);
};
/// Gives all windows FP32 scratch, which they share.
void share_fp32(std::vector<AverageWindow>& windows);
/// While it exists, a window's tensors are used.
class AverageWindowInUse {
 public:
  AverageWindowInUse(StateStorage* storage, const AverageWindow& some,
                     bool writes_values = false) noexcept;
  ~AverageWindowInUse();
  AverageWindowInUse(const AverageWindowInUse&) = delete;
  AverageWindowInUse& operator=(const AverageWindowInUse&) = delete;

 private:
  StateStorage* storage_;
  const AverageWindow& some_;
};

/// Computes into scratch and selects on the device: arithmetic, such as a weight of 0, would not
/// keep every bit if the update is rejected. `each(averaged, copied)` calls `averaged(average,
/// value, as_fp32)` for each average, then `copied(average, value)` for what is only copied.
class DeviceUpdate {
 public:
  void clear() noexcept { scratch_.clear(), weights_.clear(), rejected_.clear(); }
  /// Makes all allocations of the update.
  template <class Each>
  void prepare(const AverageFlags& flags, const Each& each) {
    if (scratch_.empty()) {
      Tensors all;
      each([&](at::Tensor& to, const auto&...) { all.push_back(to); }, [](const auto&...) {});
      scratch_ = shared_like(all);
    }
    weights_.clear(), rejected_.clear();
    auto reject = [&](at::Tensor& to, const auto&...) {
      rejected_.push_back(flags.rejected_on_device.to(to.device()));
    };
    each(
        [&](at::Tensor& to, const auto&...) {
          weights_.push_back(flags.weight_on_device.to(to.options()));
          reject(to);
        },
        reject);
  }
  template <class Each>
  void update(const Each& each) noexcept {
    std::size_t k = 0;
    each(
        [&](at::Tensor& to, const at::Tensor& value, const at::Tensor& as_fp32) {
          at::lerp_out(scratch_[k], to, as_fp32.defined() ? as_fp32.copy_(value) : value,
                       weights_[k]);
          at::where_out(to, rejected_[k], to, scratch_[k]);
          ++k;
        },
        [&](at::Tensor& to, const at::Tensor& value) {
          at::where_out(to, rejected_[k], to, value);
          ++k;
        });
  }

 private:
  Tensors scratch_, weights_, rejected_;  // one per average
};

/// The averages of a list of tensors; each is made when its tensor is added. If a storage keeps the
/// state of optimizers, it also keeps the averages, and they are updated in its windows.
class Averages {
 public:
  /// `policy` is the name of the policy, for errors.
  explicit Averages(const char* policy = "EMA") : policy_(policy) {}

  /// Asks the storage for the space of these tensors' averages. Is called before any average is
  /// made.
  void store_in(StateStorage* storage, const Tensors& values);
  const Tensors& all() const { return averages_; }
  bool any() const noexcept;
  void resize(std::size_t n) { averages_.resize(n), values_.resize(n), placed_.resize(n); }
  /// Returns false for a sparse tensor, and for a tensor whose elements share memory, such as an
  /// expanded one.
  static bool can_average(const at::Tensor& value);
  /// Averages `value` as tensor `i` from now on. A new average starts as a copy of it.
  void add(std::size_t i, const at::Tensor& value);
  /// Throws BadModel if a tensor does not have the shape, dtype or device of its average.
  template <class Name>
  void check(const Name& name) const {
    for (std::size_t i = 0; i < averages_.size(); ++i)
      if (averages_[i].defined() && values_[i].defined() && !fits(i))
        throw BadModel(std::string(policy_) + ": `" + name(i) +
                       "` changed its shape, dtype or device after its average was made. Change "
                       "the model before the trainer is made.");
  }
  /// Forgets all averages: until the next update, each tensor is its own average.
  void clear() noexcept;
  /// Makes all allocations of the update.
  void prepare(const AverageFlags& flags);
  /// Allocates nothing on a CPU: autograd's layer of the dispatcher would copy lists.
  void update(const AverageFlags& flags) noexcept;
  /// Keeps the averages that were made since the last update, although no update has followed.
  void keep_made() noexcept { made_.clear(); }
  /// Frees the averages that were made since the last update, in a step that failed.
  void abort() noexcept;
  /// Exchanges the elements of averages and values, so that tensors that share memory with a value
  /// see the average. A second call, with `back`, restores both, in the other order, since values
  /// may share memory. An FP32 average of a 16-bit value is only copied to it, and scratch keeps
  /// the value's bits meanwhile.
  void exchange(Tensors& scratch, bool back) noexcept;
  /// Makes the present values the averages. Is called between the two calls of an exchange.
  void take_values();
  /// Returns the scratch memory of an exchange: as much as the largest tensor of each dtype and
  /// device, and as much as all 16-bit values.
  Tensors scratch();

  /// In a state, averages have the names of the model's tensors (`Archive::evaluated`), 16-bit ones
  /// rounded as in an evaluation. States of former versions have averages under separate names.
  void state(Archive& archive, const Masters& all);

 private:
  StateStorage* windows() const { return window_bytes_ > 0 ? storage_ : nullptr; }
  void copy(const AverageWindow& some) const noexcept;
  void exchange(std::size_t i, at::Tensor& scratch, bool back) noexcept;
  void state_of(Archive& archive, std::size_t i, const std::string& name, const at::Tensor& value);

  [[noreturn]] void refuse_recording() const;
  bool fits(std::size_t i) const;
  std::array<std::vector<AverageWindow>*, 3> all_windows() { return {&lerped_, &copied_, &wide_}; }

  /// Floating-point and complex values are averaged; integers, which are counters, are copied.
  void sort_if_needed();
  /// Moves an average that is new or was loaded to the memory of the storage.
  void place(std::size_t i);
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
      wide_;                       // defined averages, by the way they are updated
  std::int64_t window_bytes_ = 0;  // the size for which these were made; 0: one window holds all
  DeviceUpdate on_device_;
  std::vector<at::ScalarType> types_;  // the dtypes of the values, at the time when they were
                                       // sorted
  std::vector<std::size_t> made_;      // averages that were made since the last update
  bool is_sorted_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/average/impl/averages.ipp>
#endif
