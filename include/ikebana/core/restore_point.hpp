#pragma once
// What a step that throws puts back besides parameters and the state of policies: the model's
// buffers, such as the statistics of batch norm, and the random generators.
#include <array>
#include <cstring>
#include <ikebana/bridge/generator_state.hpp>
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
      : name_(std::move(name)), buffer_(buffer), former_(buffer.detach()), version_(buffer) {
    if (is_copyable()) copy_ = former_.clone();
  }

  /// A step begins. Adds to `copies` what is to be copied on a device.
  void begin(BufferCopies& copies) {
    const bool moved = has_moved();
    const bool stale = version_.changed() || may_change_uncounted(buffer_);
    if (moved || !buffer_.has_storage()) former_ = buffer_.detach();
    version_.record_again();
    if (!copy_.defined() && !changes_) return;
    if (moved || !copy_.defined() || (stale && !buffer_.has_storage()))
      copy_ = is_copyable() ? former_.clone() : at::Tensor();
    else if (stale && buffer_.is_cpu() && is_dense()) copy(copy_, former_);
    else if (stale) copies.add(copy_, former_);
  }
  /// The step was committed. After the first, what it left as it was is taken for constant.
  void commit(bool first) noexcept {
    if (version_.changed() || has_moved()) changes_ = true;
    if (first && !changes_ && !may_change_uncounted(buffer_)) copy_.reset();
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
  const std::string& name() const { return name_; }

 private:
  /// True where the tensor has another memory, shape or dtype than when the step began.
  bool has_moved() const {
    if (buffer_.sizes() != former_.sizes() || buffer_.dtype() != former_.dtype()) return true;
    if (!buffer_.has_storage() || !former_.has_storage())
      return buffer_.has_storage() != former_.has_storage();
    return !buffer_.is_alias_of(former_) || buffer_.storage_offset() != former_.storage_offset() ||
           buffer_.strides() != former_.strides();
  }
  /// False where elements share memory, as in an expanded tensor, which cannot be written to.
  bool is_copyable() const {
    return !buffer_.has_storage() || at::has_internal_overlap(buffer_) != at::MemOverlap::Yes;
  }
  bool is_dense() const {
    return buffer_.has_storage() && buffer_.is_non_overlapping_and_dense() &&
           buffer_.strides() == copy_.strides() && !buffer_.is_conj() && !buffer_.is_neg();
  }
  static void copy(const at::Tensor& to, const at::Tensor& from) {
    if (to.nbytes() != 0) std::memcpy(to.data_ptr(), from.const_data_ptr(), to.nbytes());
  }
  void write() {
    if (!buffer_.has_storage()) {
      if (version_.changed()) buffer_.set_data(std::exchange(copy_, {})), changes_ = true;
    } else if (buffer_.is_cpu() && is_dense()) {
      copy(buffer_, copy_);
    } else {
      buffer_.variable_data().copy_(copy_, /*non_blocking=*/true);
    }
  }

  std::string name_;
  at::Tensor buffer_;
  at::Tensor former_;  // shares the memory that the buffer had when the step began
  at::Tensor copy_;    // of its value then; undefined for a constant
  Version version_;    // then
  bool changes_ = false;
};

/// The buffers and random generators as they were when the step began. Costs the copies, and some
/// 100 ns for the CPU's generator.
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
    for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
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
