#pragma once
// What a step that throws puts back besides parameters and the state of policies: the model's
// buffers, such as the statistics of batch norm, and the random generators.
#include <array>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Copies on a device, made by one call for each kind of dtype.
class BufferCopies {
 public:
  void add(const at::Tensor& to, const at::Tensor& from) {
    Lists& lists = all_[to.is_floating_point() ? 0 : 1];
    lists.to.push_back(to), lists.from.push_back(from);
  }
  void make() {
    for (Lists& lists : all_)
      if (!lists.to.empty()) at::_foreach_copy_(lists.to, lists.from, /*non_blocking=*/true);
  }

 private:
  struct Lists {
    std::vector<at::Tensor> to, from;
  };
  std::array<Lists, 2> all_;
};

/// One buffer and its value at the start of a step. The value is copied at the first step; later
/// only of buffers that a step changed, and of those whose changes are not counted.
class BufferBackup {
 public:
  BufferBackup(std::string name, const at::Tensor& buffer)
      : name_(std::move(name)), buffer_(buffer), version_(buffer) {
    take_memory();
    take_value();
  }

  /// A step begins. Adds to `copies` what is to be copied on a device.
  void begin(BufferCopies& copies) {
    const bool moved = has_moved(), stale = version_.changed() || uncounted_;
    if (moved || storage_ == nullptr) take_memory();
    version_.record_again();
    if (!copy_.defined() && !changes_ && !uncounted_) return;
    if (moved || !copy_.defined() || (stale && storage_ == nullptr)) take_value();
    else if (stale && by_bytes_) copy_flat(copy_, buffer_);
    else if (stale) copies.add(copy_, former_);
  }
  /// The step was committed. After the first, what it left as it was is taken for constant.
  void commit(bool first) noexcept {
    if (changes_ || (uncounted_ && !first)) return;
    changes_ = version_.changed() || has_moved();
    if (first && !changes_ && !uncounted_) copy_.reset();
  }
  /// The step threw. False where the buffer has changed and cannot be put back.
  bool restore() noexcept {
    try {
      if (has_moved()) buffer_.set_data(former_);
      if (copy_.defined()) {
        write();
        version_.record_again();
      }
    } catch (const std::exception&) {  // of a device that cannot be used any more
      return false;
    }
    const bool restored = !version_.changed();
    if (!restored) changes_ = true, version_.record_again();
    return restored;
  }
  /// The host knows that the step makes no update: a value that is not finite is put back.
  void put_back_non_finite() {
    if (!copy_.defined() || !buffer_.is_floating_point() || !(version_.changed() || uncounted_))
      return;
    const at::Tensor now = buffer_.is_sparse() ? buffer_._values() : buffer_;
    if (!now.isfinite().all().item<bool>() && restore()) changes_ = true;
  }
  const std::string& name() const { return name_; }

 private:
  /// Null for a sparse tensor.
  const c10::StorageImpl* storage() const {
    return buffer_.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  }
  /// True where the tensor has another memory, shape or dtype than when the step began.
  bool has_moved() const {
    return storage() != storage_ || buffer_.sizes() != former_.sizes() ||
           buffer_.dtype() != former_.dtype() ||
           (storage_ != nullptr && (buffer_.storage_offset() != former_.storage_offset() ||
                                    buffer_.strides() != former_.strides()));
  }
  void take_memory() {
    former_ = buffer_.detach();
    storage_ = storage();
    uncounted_ = may_change_uncounted(buffer_);
  }
  /// Nothing of a tensor whose elements share memory, as an expanded one, which none can write to.
  void take_value() {
    copy_.reset();
    const bool strided = storage_ != nullptr;
    if (strided && at::has_internal_overlap(buffer_) == at::MemOverlap::Yes) return;
    copy_ = former_.clone();
    by_bytes_ = are_flat_alike(buffer_, copy_);
  }
  void write() {
    if (storage_ == nullptr) {
      if (version_.changed()) buffer_.set_data(std::exchange(copy_, {})), changes_ = true;
    } else if (by_bytes_) {
      copy_flat(buffer_, copy_);
    } else {
      buffer_.variable_data().copy_(copy_, /*non_blocking=*/true);
    }
  }

  std::string name_;
  at::Tensor buffer_;
  at::Tensor former_;  // shares the memory that the buffer had when the step began
  at::Tensor copy_;    // of its value then; undefined for a constant
  const c10::StorageImpl* storage_ = nullptr;  // of former_
  Version version_;                            // then
  bool changes_ = false, uncounted_ = false;
  bool by_bytes_ = false;  // a copy is one of memory of the host
};

/// The buffers and random generators as they were when the step began. Costs, for each step, 450
/// instructions for the CPU's generator, two calls for a device's, 300 instructions and a copy of
/// its bytes for each buffer that changes on a CPU, and two launches for those on a device.
class RestorePoint {
 public:
  explicit RestorePoint(c10::Device device) {
    if (at::isAccelerator(device.type())) device_generator_.emplace(device);
  }

  /// A step begins. What is thrown here leaves everything as it was.
  void begin(const torch::nn::Module& model) {
    cpu_generator_.capture();
    if (device_generator_) device_generator_->capture();
    if (!collected_) return collect(model);
    if (buffers_.empty()) return;
    try {
      BufferCopies copies;
      for (BufferBackup& buffer : buffers_) buffer.begin(copies);
      copies.make();
    } catch (...) {  // some copies are old: all are made anew
      collected_ = committed_ = false;
      throw;
    }
  }
  void commit() noexcept {
    const bool first = !std::exchange(committed_, true);
    for (BufferBackup& buffer : buffers_) buffer.commit(first);
  }
  /// The step is skipped, and its batch may have made statistics NaN for good: those are put back.
  void put_back_non_finite() {
    for (BufferBackup& buffer : buffers_) buffer.put_back_non_finite();
  }
  /// The step threw.
  void restore() noexcept {
    const at::NoGradGuard no_grad;
    lost_.clear();
    for (BufferBackup& buffer : buffers_)
      if (!buffer.restore()) lost_.push_back(&buffer);
    restore(cpu_generator_);
    if (device_generator_) restore(*device_generator_);
  }
  /// A sentence on buffers that the last step changed and that could not be put back; empty where
  /// there are none. Said once.
  std::string take_lost() {
    std::string names;
    for (const BufferBackup* buffer : lost_)
      names += (names.empty() ? "`" : ", `") + buffer->name() + "`";
    lost_.clear();
    if (names.empty()) return {};
    return " Buffers that no earlier step had changed keep what this one wrote: " + names +
           ". From the next step on they are put back as well.";
  }

 private:
  void collect(const torch::nn::Module& model) {
    std::vector<BufferBackup> all;
    lost_.clear();
    for (const auto& item : each_once(model.named_buffers()))
      all.emplace_back(item.key(), item.value());
    lost_.reserve(all.size());
    buffers_ = std::move(all);
    collected_ = true;
  }
  static void restore(const bridge::GeneratorState& generator) noexcept {
    try {
      generator.restore();
    } catch (const std::exception&) {  // of a device that cannot be used any more
    }
  }

  bridge::GeneratorState cpu_generator_{c10::Device(c10::kCPU)};
  std::optional<bridge::GeneratorState> device_generator_;
  std::vector<BufferBackup> buffers_;
  std::vector<const BufferBackup*> lost_;
  bool collected_ = false, committed_ = false;
};

}  // namespace ikebana::detail
