#pragma once
// Makes one operator call on the simulated accelerator: the CPU's kernel, on CPU tensors that share
// the memory of the device's.
#include "simulated_state.hpp"

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <functional>

namespace c10 {
class OperatorHandle;
}

namespace simulated {

/// CPU tensors that share the bytes of a device's, for one call. Two of one storage share one.
class Aliases {
 public:
  at::Tensor of(const at::Tensor& tensor);
  /// Returns the device's tensor for what the CPU returned: an argument, a view of one, or a new
  /// tensor.
  at::Tensor back(const at::Tensor& result, c10::Device device);
  /// Gives the arguments the sizes and the memory that the call gave to their aliases.
  void keep_changes();
  /// Returns whether the CPU made the memory of a result.
  bool is_new(const at::Tensor& result) const;
  /// Returns the device's memory of a result.
  const c10::Storage& device_storage(const at::Tensor& result, c10::Device device);

 private:
  struct Shared {
    c10::Storage device, host;
    const void* bytes;
    bool is_new = false;
  };
  struct Pair {
    at::Tensor device, host;
  };
  at::Tensor of_sparse(const at::Tensor& tensor);
  at::Tensor sparse_back(const at::Tensor& result, c10::Device device);
  void keep_sparse_changes(const at::Tensor& tensor, const at::Tensor& host);
  const c10::Storage& host_storage(const at::Tensor& tensor);
  std::vector<Shared> storages_;
  std::vector<Pair> tensors_;
};

/// Returns the indices and the values of a sparse tensor.
std::pair<at::Tensor, at::Tensor> parts(const at::Tensor& sparse);

/// An operation begins on a stream: the stream's copies are done, and what it uses is noted.
struct Uses {
  std::vector<at::Tensor> reads, writes;
};
void begin(StreamIndex stream, const Uses& uses, const char* what);

/// One call of an operator, with its arguments on a stack.
class Call {
 public:
  /// `key`: whose kernel runs.
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::DispatchKey key);
  void run();

 private:
  template <class F>
  void each_tensor(F&& f) const;
  c10::Device find_device() const;
  void check_devices() const;
  bool takes_host_tensor(std::size_t argument, const at::Tensor& t) const;
  bool waits() const;
  bool writes(std::size_t argument) const;
  Uses uses() const;
  void to_host();
  c10::IValue to_host(const c10::IValue& value);
  c10::IValue to_device(const c10::IValue& value);
  /// Returns a function that makes the call again, on the same memory.
  std::function<void()> again(std::vector<c10::IValue> given,
                              const std::vector<c10::IValue>& computed);
  c10::IValue& argument(std::size_t i) { return stack_[begin_ + i]; }
  const c10::IValue& argument(std::size_t i) const { return stack_[begin_ + i]; }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::size_t count_, begin_;
  c10::Device device_;
  StreamIndex stream_;
  c10::DispatchKey key_;
  Aliases aliases_;
};

}  // namespace simulated
