#pragma once
// What a step that throws puts back besides parameters and the state of policies: the model's
// buffers, such as the statistics of batch norm, and the random generators.
#include <array>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Copies on a device, made by one call for each kind of dtype.
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

/// One buffer and its value at the start of a step. The value is copied at the first step; later
/// only of buffers that a step changed, and of those whose changes are not counted.
class BufferBackup {
 public:
  BufferBackup(std::string name, const at::Tensor& buffer);

  /// A step begins. Adds to `copies` what is to be copied on a device.
  void begin(BufferCopies& copies);
  /// The step was committed. After the first, what it left as it was is taken for constant.
  void commit(bool first) noexcept;
  /// The step threw. False where the buffer has changed and cannot be put back.
  bool restore() noexcept;
  /// The host knows that the step makes no update: a value that is not finite is put back.
  void put_back_non_finite();
  const std::string& name() const { return name_; }

 private:
  /// Null for a sparse tensor.
  const c10::StorageImpl* storage() const;
  /// True where the tensor has another memory, shape or dtype than when the step began.
  bool has_moved() const;
  void take_memory();
  /// Nothing of a tensor whose elements share memory, as an expanded one, which none can write to.
  void take_value();
  void write();

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
  explicit RestorePoint(c10::Device device);

  /// A step begins. What is thrown here leaves everything as it was.
  void begin(const torch::nn::Module& model);
  void commit() noexcept;
  /// The step is skipped, and its batch may have made statistics NaN for good: those are put back.
  void put_back_non_finite();
  /// The step threw.
  void restore() noexcept;
  /// A sentence on buffers that the last step changed and that could not be put back; empty where
  /// there are none. Said once.
  std::string take_lost();

 private:
  void collect(const torch::nn::Module& model);
  static void restore(const bridge::GeneratorState& generator) noexcept;

  bridge::GeneratorState cpu_generator_{c10::Device(c10::kCPU)};
  std::optional<bridge::GeneratorState> device_generator_;
  std::vector<BufferBackup> buffers_;
  std::vector<const BufferBackup*> lost_;
  bool collected_ = false, committed_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/restore_point.ipp>
#endif
