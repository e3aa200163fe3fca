#pragma once
// The gradients of a unit, summed over ranks, of which each receives its slices.
#include <ikebana/shard/connection.hpp>
#include <ikebana/shard/unit_cut.hpp>

namespace ikebana::detail {

/// A unit's gradients on their way: each rank sends the others their rows. The sum is taken in the
/// order of ranks, over those that have a gradient, and is undefined where no rank has one. On an
/// interconnect of N ranks (N - 1) / N of the gradients are sent and received.
class UnitReduction {
 public:
  /// `gradients`: one for each parameter, undefined where this rank has none. They are sent and
  /// summed in `dtypes`. `tag` has the gradients; among devices `tag + 1` has which of them there
  /// are, among hosts the message of the small slices.
  UnitReduction(Connection& connection, int tag, const UnitCut& cut, Tensors gradients,
                const DTypes& dtypes, c10::Device device)
      : cut_(cut),
        dtypes_(dtypes),
        gradients_(std::move(gradients)),
        rank_(connection.rank()),
        head_(device.is_cpu() ? std::ssize(gradients_) : 0) {
    for (std::size_t i = 0; i < gradients_.size(); ++i)
      if (at::Tensor& g = gradients_[i]; g.defined()) g = cut.in_rows(g.to(dtypes_[i]), i);
    const auto ranks = static_cast<std::size_t>(connection.size());
    received_.resize(ranks);
    TensorsOfRanks to(ranks), from(ranks), flags_to(ranks), flags_from(ranks);
    const at::Tensor flags = own_flags();
    for (std::size_t r = 0; r < ranks; ++r) {
      if (static_cast<std::int64_t>(r) == rank_) continue;
      to[r] = to_send(static_cast<std::int64_t>(r), device);
      from[r] = to_receive(received_[r], device);
      if (head_ > 0) {
        to[r][0].narrow(0, 0, head_).copy_(flags);
        received_[r].flags = from[r][0];
      } else {
        flags_to[r] = {flags}, flags_from[r] = {received_[r].flags = at::empty_like(flags)};
      }
    }
    received_[static_cast<std::size_t>(rank_)].flags = flags;
    if (head_ == 0) flags_ = connection.swap(tag + 1, flags_to, flags_from, at::kCPU);
    transfer_ = connection.swap(tag, to, from, device);
  }
  /// Waits, and adds up. Throws RankFailed.
  Tensors finish(Connection& connection) {
    connection.receive(std::move(flags_));
    connection.receive(std::move(transfer_));
    const SmallSlices small(cut_, rank_, dtypes_, head_);
    Tensors sums;
    for (std::size_t i = 0; i < cut_.count(); ++i) sums.push_back(sum(i, small));
    gradients_.clear(), received_.clear();
    return sums;
  }

 private:
  /// What a rank sends: whether it has a gradient of each parameter, small slices, large ones.
  struct Received {
    at::Tensor flags, small;
    Tensors large;  // by parameter
  };

  at::Tensor own_flags() const {
    at::Tensor flags = at::empty({static_cast<std::int64_t>(gradients_.size())}, at::kByte);
    auto* flag = static_cast<std::uint8_t*>(flags.mutable_data_ptr());
    for (std::size_t i = 0; i < gradients_.size(); ++i) flag[i] = gradients_[i].defined();
    return flags;
  }
  std::vector<at::Tensor> to_send(std::int64_t rank, c10::Device device) const {
    const SmallSlices layout(cut_, rank, dtypes_, head_);
    std::vector<at::Tensor> all;
    if (layout.bytes() > 0) all.push_back(at::zeros({layout.bytes()}, bytes_on(device)));
    for (std::size_t i = 0; i < cut_.count(); ++i) {
      const at::Tensor& g = gradients_[i];
      if (cut_.rows(i, rank).count == 0) continue;
      if (!cut_.is_small(i)) {  // the others wait for it, also where there is none
        const auto options = bytes_on(device).dtype(dtypes_[i]);
        const at::Tensor slice =
            g.defined() ? cut_.slice(g, i, rank) : cut_.new_slice(i, rank, options).zero_();
        all.push_back(elements_in_memory(slice));
      } else if (g.defined()) {
        layout.slice(all[0], i).copy_(cut_.slice(g, i, rank));
      }
    }
    return all;
  }
  std::vector<at::Tensor> to_receive(Received& received, c10::Device device) const {
    const SmallSlices layout(cut_, rank_, dtypes_, head_);
    std::vector<at::Tensor> all;
    if (layout.bytes() > 0)
      all.push_back(received.small = at::empty({layout.bytes()}, bytes_on(device)));
    received.large.resize(cut_.count());
    for (std::size_t i = 0; i < cut_.count(); ++i) {
      if (cut_.is_small(i)) continue;
      received.large[i] = cut_.new_slice(i, rank_, bytes_on(device).dtype(dtypes_[i]));
      all.push_back(elements_in_memory(received.large[i]));
    }
    return all;
  }
  at::Tensor sum(std::size_t i, const SmallSlices& small) {
    at::Tensor sum;
    bool is_own = false;  // whether no other tensor has its memory
    for (std::size_t r = 0; r < received_.size(); ++r) {
      if (!has_gradient(received_[r], i)) continue;
      const bool from_here = static_cast<std::int64_t>(r) == rank_;
      const at::Tensor one = from_here          ? cut_.slice(gradients_[i], i, rank_)
                             : cut_.is_small(i) ? small.slice(received_[r].small, i)
                                                : received_[r].large[i];
      if (sum.defined() && !std::exchange(is_own, true)) sum = sum + one;
      else if (sum.defined()) sum.add_(one);
      else sum = one, is_own = !from_here && !cut_.is_small(i);
    }
    return sum.defined() && !is_own ? sum.clone() : sum;
  }
  static bool has_gradient(const Received& received, std::size_t i) {
    return static_cast<const std::uint8_t*>(received.flags.const_data_ptr())[i] != 0;
  }
  static at::TensorOptions bytes_on(c10::Device device) {
    return at::TensorOptions(device).dtype(at::kByte);
  }

  const UnitCut& cut_;
  DTypes dtypes_;
  Tensors gradients_;
  std::int64_t rank_, head_;        // bytes of flags in the message of small slices
  std::vector<Received> received_;  // of each rank
  Transfer flags_, transfer_;
};

}  // namespace ikebana::detail
