#pragma once
// Puts back the model's buffers, such as the statistics of batch norm, and the random generators if
// a step throws. Parameters and the state of policies are put back elsewhere.
#include <array>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Makes copies on a device, by one call for each kind of dtype.
class BufferCopies {
 public:
  void add(const at::Tensor& to, const at::Tensor& from);
  void make();

 private:
  struct Lists {
    std::vector<at::Tensor> to, from;
  };
  std::array<Lists, 2> all_;
};

/// One buffer and its value at the start of a step. The value is copied at the first step, and
/// later only if a step changed the buffer, or if changes of the buffer are not counted.
class BufferBackup {
 public:
  BufferBackup(std::string name, const at::Tensor& buffer);

  /// Begins a step. Adds to `copies` what is to be copied on a device.
  void begin(BufferCopies& copies);
  /// Ends a step that was committed. A buffer that the first step did not change counts as constant
  /// from then on.
  void commit(bool first) noexcept;
  /// Ends a step that threw. Returns false if the buffer has changed and cannot be put back.
  bool restore() noexcept;
  /// Puts back a value that is not finite. It is called if the host knows that the step makes no
  /// update.
  void put_back_non_finite();
  const std::string& name() const { return name_; }

 private:
  /// Returns the buffer's memory, or null for a sparse tensor.
  const c10::StorageImpl* storage() const;
  /// Returns true if the tensor has another memory, shape or dtype than when the step began.
  bool has_moved() const;
  void take_memory();
  /// Copies the value, unless the tensor's elements share memory, as an expanded one's do: nothing
  /// can write to that.
  void take_value();
  void write();

  std::string name_;
  at::Tensor buffer_;
  at::Tensor former_;  // shares the memory that the buffer had when the step began
  at::Tensor copy_;    // has its value at that time; undefined for a constant
  const c10::StorageImpl* storage_ = nullptr;  // the storage of former_
  Version version_;                            // when the step began
  bool changes_ = false, uncounted_ = false;
  bool by_bytes_ = false;  // the host copies its memory
};

/// The buffers and random generators as they were when the step began. Costs, for each step, 450
/// instructions for the CPU's generator, two calls for a device's, 300 instructions and a copy of
/// its bytes for each buffer that changes on a CPU, and two launches for the buffers on a device.
class RestorePoint {
 public:
  explicit RestorePoint(c10::Device device);

  /// Begins a step. If it throws, everything stays as it was.
  void begin(const torch::nn::Module& model);
  void commit() noexcept;
  /// Is called when the step is skipped: puts back statistics that its batch has made NaN
  /// permanently.
  void put_back_non_finite();
  /// Ends a step that threw.
  void restore() noexcept;
  /// Returns a sentence on the buffers that the last step changed and that could not be put back,
  /// or an empty text if all were put back. Returns the sentence only once.
  std::string take_lost();

 private:
  void collect(const torch::nn::Module& model);
  static void restore(const bridge::GeneratorState& generator) noexcept;

  bridge::GeneratorState cpu_generator_{c10::Device(c10::kCPU)};
  std::optional<bridge::GeneratorState> device_generator_;
  std::vector<BufferBackup> buffers_;
  std::vector<const BufferBackup*> lost_;
  bool collected_ = false, committed_ = false;
  bool has_gradients_ = true;  // whether gradients are enabled on the thread of the step
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/restore_point.ipp>
#endif
