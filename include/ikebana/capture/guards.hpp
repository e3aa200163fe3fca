#pragma once
// Compares before each replay all that it takes for granted: the model, the values of policies, the
// modes of LibTorch, and the form of the batch.
#include <algorithm>
#include <ikebana/core/compared_values.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/grammar/units.hpp>
#include <memory>
#include <typeindex>

namespace ikebana::detail {

/// The sizes of modules whose type is known, by which their bytes can be read.
class ModuleSizes {
 public:
  /// Knows the layers of LibTorch.
  ModuleSizes();
  template <class Module>
  void add() {
    sizes_[typeid(Module)] = sizeof(Module);
  }
  /// Adds a model and the units that it declares.
  template <class Model>
  void add_model() {
    add<impl_of_t<Model>>();
    add_units(std::type_identity<units_of_t<Model>>());
  }
  /// Returns the bytes of a module that can be read: all, or the base class of all modules.
  std::size_t of(const torch::nn::Module& module) const;

 private:
  template <class... Units_>
  void add_units(std::type_identity<Units<Units_...>>) {
    (add<impl_of_t<Units_>>(), ...);
  }
  template <class Other>
  void add_units(std::type_identity<Other>) {}

  std::map<std::type_index, std::size_t> sizes_;
};

/// Lets LibTorch compute the name of each module, which changes its bytes. It does so when it is
/// first asked for a name, and ends the process if there is no memory for it: not in a step.
void compute_names(const torch::nn::Module& model);

/// The modules, parameters and buffers of a model, as they were. Every module is compared byte by
/// byte: its mode, the tensors and modules that it holds, and numbers that are members of it, such
/// as the probability of a dropout.
class ModelGuard {
 public:
  /// If parameters `move`, a storage may have its bytes at several addresses.
  void take(const torch::nn::Module& model, const ModuleSizes& sizes, bool move = false);
  /// Returns false if something has changed. Allocates nothing.
  bool is_unchanged() const noexcept;
  /// Returns the name of the first module whose bytes have changed; empty if none has.
  std::string changed_module() const;

 private:
  struct Bytes {
    std::shared_ptr<const torch::nn::Module> module;
    const void* data;
    std::size_t count, offset;
    std::string name;
  };
  struct Registered {
    at::Tensor tensor;
    const c10::StorageImpl* storage;
    const void* data;  // null if it may be anywhere
    bool requires_grad;
    std::size_t hooks;
  };
  bool is_unchanged(const Bytes& one) const noexcept {
    return std::memcmp(one.data, bytes_.data() + one.offset, one.count) == 0;
  }

  std::vector<Bytes> modules_;
  std::vector<std::byte> bytes_;
  std::vector<Registered> tensors_;
};

/// The modes of LibTorch on this thread that change what is computed.
struct TorchModes {
  bool grad = true, inference = false, deterministic = false, deterministic_warns = false;
  bool flash = true, efficient = true, math = true;  // the kernels of attention
  bool autocasts = false, caches_casts = false, mkldnn = true;
  bool cudnn = true, deterministic_cudnn = false, benchmarks_cudnn = false;
  at::ScalarType autocast_dtype = at::kFloat;
  caffe2::TypeMeta default_dtype;
  int precision = 0;

  /// Returns them for a type of device.
  static TorchModes now(c10::DeviceType type);
  friend bool operator==(const TorchModes&, const TorchModes&) = default;
};

/// The form of a microbatch: shapes, dtypes and layouts of its tensors, its other values, and which
/// gradients there are before it. Microbatches of one form differ in the values of tensors. The
/// arguments and results of a unit have a form as well.
class BatchForm {
 public:
  template <class Batch, class Place>
  void take(const Batch& microbatch, Place place, const Masters& masters) {
    take_values(static_cast<std::int64_t>(place), microbatch);
    add_gradients(masters);
  }
  /// Takes the form of some values. `key` tells apart what must differ.
  template <class... Values>
  void take_values(std::int64_t key, const Values&... values) {
    words_.clear(), storages_.clear();
    words_.push_back(key);
    (add(values), ...);
  }
  friend bool operator==(const BatchForm& a, const BatchForm& b) { return a.words_ == b.words_; }

 private:
  template <class Value>
  void add(const Value& value) {
    for_each_tensor(value, [&](const at::Tensor& t) { add_tensor(t); });
    OtherValues others{words_};
    add_value(others, value, 0);
    add_bytes(value);
  }
  /// Takes the values of a batch that are no tensors.
  struct OtherValues {
    std::vector<std::int64_t>& words;
    template <class Name, class F>
    void named(const Name&, const F& f) {
      f();
    }
    void add(bool on) { words.push_back(on ? 1 : 0); }
    void add(std::int64_t value) { words.push_back(value); }
    void add(double value) {
      std::int64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      words.push_back(bits);
    }
    void add(std::string_view text) {
      words.push_back(static_cast<std::int64_t>(fnv1a(fnv1a_start, text)));
    }
    void add(const ParameterRule&) {}
    void add(const at::Tensor&) {}
  };
  /// Adds the bytes of values that show no parts and are copied byte by byte.
  template <class T>
  void add_bytes(const T& value) {
    if constexpr (ShowsFields<T>)
      with_fields(value, [&](const auto&... fields) { (add_bytes(fields), ...); });
    else if constexpr (std::is_class_v<T> && std::is_trivially_copyable_v<T>)
      add_raw(&value, sizeof value);
  }
  void add_raw(const void* data, std::size_t bytes);
  void add_tensor(const at::Tensor& t);
  void add_gradients(const Masters& masters);

  std::vector<std::int64_t> words_;
  std::vector<std::pair<const void*, std::int64_t>> storages_;  // and the offset of the first view
};

/// Returns the sentence that a module changes itself, which no replay does.
std::string changed_module_text(const std::string& module);

/// Tapes for several forms, each with a `form()`. The one that was used least recently is dropped
/// first.
template <class Tape>
class TapesByForm {
 public:
  /// Returns the tape of this form, or null.
  Tape* find(const BatchForm& form) {
    for (const auto& tape : all_)
      if (tape->form() == form) return tape->last_use = ++uses_, tape.get();
    return nullptr;
  }
  /// Adds a tape, and drops others if there are more than `most` then.
  Tape& add(std::shared_ptr<Tape> tape, std::int64_t most) {
    while (!all_.empty() && std::ssize(all_) >= most)
      all_.erase(std::min_element(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
        return a->last_use < b->last_use;
      }));
    all_.push_back(std::move(tape));
    all_.back()->last_use = ++uses_;
    return *all_.back();
  }
  void clear() noexcept { all_.clear(); }
  const std::vector<std::shared_ptr<Tape>>& all() const { return all_; }

 private:
  std::vector<std::shared_ptr<Tape>> all_;
  std::uint64_t uses_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/guards.ipp>
#endif
