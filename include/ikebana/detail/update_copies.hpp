#pragma once
// What an update changes, as it was before: an update that fails is put back, and so is one that
// the device rejects.
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
  /// The same for the rows `index` (a vector of integers) of `t`.
  void reserve_rows(const at::Tensor& t, const at::Tensor& index);
  /// Copies what was reserved, before it is changed. Allocates nothing on a CPU but for rows.
  void take();
  bool any_taken() const;
  /// Puts everything back where the flag (one element) is not 0. The host does not read the flag of
  /// a device, and tensors of the host are then left out.
  void put_back_if(const at::Tensor& flag) const;
  /// Puts everything back that was copied, and forgets it.
  void put_back() noexcept;
  void clear() noexcept { all_.clear(); }
  /// Forgets what `put_back_if` has put back, or would have, by a device's flag.
  void clear_device() noexcept;
  bool empty() const { return all_.empty(); }

 private:
  struct Copy {
    at::Tensor changed, rows, before;
    bool flat;  // its memory is read and written as bytes
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
