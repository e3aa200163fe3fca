#pragma once
// Gathers a unit's whole parameters from the ranks that have their slices.
#include <ikebana/shard/group/subgroup.hpp>
#include <ikebana/shard/sliced/unit_cut.hpp>

namespace ikebana::detail {

/// One gather under way. Large slices arrive in place; the small slices of a rank arrive in one
/// message, and are copied. It holds the unit's memory once, and that of the small slices.
class UnitGather {
 public:
  /// `own` are the slices of this rank. `whole` is memory for the parameters, or empty; if `own`
  /// are rows of it, nothing is copied. Throws RankFailed.
  UnitGather(Subgroup& group, int tag, const UnitCut& cut, const Tensors& own, Tensors whole = {});
  /// Waits, and returns the whole parameters. Throws RankFailed.
  Tensors finish(Subgroup& group);

 private:
  std::vector<at::Tensor> to_send(std::int64_t rank, const Tensors& own);
  std::vector<at::Tensor> to_receive(std::int64_t rank, const Tensors& own);
  void copy_own(std::int64_t rank, const Tensors& own);
  static at::TensorOptions bytes_like(const at::Tensor& t);

  const UnitCut& cut_;
  DTypes dtypes_;
  Tensors whole_;
  std::vector<at::Tensor> received_;                  // the small slices of each rank, or undefined
  std::int64_t received_bytes_ = 0, sent_bytes_ = 0;  // the bytes of small slices
  Transfer transfer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_gather.ipp>
#endif
