#pragma once
// Copies of the tensors that an update changes. They undo an update that fails, or that the device
// rejects.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// Copies of tensors, kept until an update is committed. Putting back allocates nothing on a CPU.
class UpdateCopies {
 public:
  /// Copies `t` before it is changed in place. May throw; `t` is then not among the copies.
  void keep(const at::Tensor& t);
  /// Allocates the copy of `t` that `take` makes. Does not read `t`.
  void reserve(const at::Tensor& t);
  /// Allocates the copy of the rows `index` (a vector of integers) of `t`.
  void reserve_rows(const at::Tensor& t, const at::Tensor& index);
  /// Copies the reserved tensors, before they are changed. Allocates nothing on a CPU, except for
  /// rows.
  void take();
  bool any_taken() const;
  /// Puts everything back if the flag (one element) is not 0. The host does not read the flag of a
  /// device; tensors of the host are then left out.
  void put_back_if(const at::Tensor& flag) const;
  /// Puts everything back that was copied, and drops the copies.
  void put_back() noexcept;
  void clear() noexcept { all_.clear(); }
  /// Drops the copies that `put_back_if` puts back by a device's flag.
  void clear_device() noexcept;
  bool empty() const { return all_.empty(); }

 private:
  struct Copy {
    at::Tensor changed, rows, before;
    bool flat;  // its memory is copied as bytes
    bool is_taken = false;
  };

  void add(Copy copy) { all_.push_back(std::move(copy)); }
  static void put_back(const Copy& copy);

  std::vector<Copy> all_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/update_copies.ipp>
#endif
