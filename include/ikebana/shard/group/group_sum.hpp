#pragma once
// Sums over a group of ranks, in the order of ranks.
#include <ikebana/detail/torch.hpp>
#include <ikebana/shard/group/messages.hpp>
#include <string>
#include <vector>

namespace ikebana::detail {

/// The layout of several tensors of one device in one tensor of bytes, each at a multiple of 16.
class PackedTensors {
 public:
  explicit PackedTensors(const std::vector<at::Tensor>& like);
  /// Returns a text that is the same on ranks whose tensors have the same shapes and dtypes.
  std::string text() const;
  at::Tensor new_memory() const;
  /// Returns the tensors within `memory`, whose memory they share.
  std::vector<at::Tensor> places(const at::Tensor& memory) const;

 private:
  std::vector<at::Tensor> like_;
  std::vector<std::int64_t> begins_;
  std::int64_t bytes_ = 0;
};

/// The sums of one group, a Connection or a Subgroup. Each costs one exchange. Among devices the
/// host does not wait for it, except for the first one of each call and layout.
class GroupSum {
 public:
  /// Replaces each tensor by its sum, in the call of this name. Throws BadModel if ranks make
  /// different calls, or add up different shapes or dtypes.
  template <class Group>
  void over(Group& group, const std::string& call, std::vector<at::Tensor>& values) {
    if (group.size() == 1 || values.empty()) return;
    const at::NoGradGuard no_grad;
    const PackedTensors layout(values);
    const at::Tensor own = layout.new_memory();
    const std::vector<at::Tensor> places = layout.places(own);
    for (std::size_t i = 0; i < values.size(); ++i) places[i].copy_(values[i]);
    const auto all = own.is_cpu() ? on_hosts(group, call, own, layout.text())
                                  : on_devices(group, call, own, layout.text());
    values = layout.places(all[0]);
    for (at::Tensor& value : values) value = value.clone();
    for (std::size_t r = 1; r < all.size(); ++r) {
      const std::vector<at::Tensor> others = layout.places(all[r]);
      for (std::size_t i = 0; i < values.size(); ++i) values[i].add_(others[i]);
    }
  }

 private:
  /// Returns the bytes of all ranks.
  template <class Group>
  static std::vector<at::Tensor> on_hosts(Group& group, const std::string& call,
                                          const at::Tensor& own, const std::string& layout) {
    std::string text = layout + '\n';
    text.append(static_cast<const char*>(own.const_data_ptr()), own.nbytes());
    std::vector<at::Tensor> all;
    for (const std::string& other : exchange_in(group, call, text)) {
      check_layout(layout, other.substr(0, other.find('\n')));
      all.push_back(at::empty_like(own));
      std::memcpy(all.back().mutable_data_ptr(), other.data() + layout.size() + 1, own.nbytes());
    }
    return all;
  }
  template <class Group>
  std::vector<at::Tensor> on_devices(Group& group, const std::string& call, const at::Tensor& own,
                                     const std::string& layout) {
    const std::string key = call + ' ' + layout;
    if (std::find(compared_.begin(), compared_.end(), key) == compared_.end()) {
      for (const std::string& other : exchange_in(group, call + " on devices", layout))
        check_layout(layout, other);
      compared_.push_back(key);
    }
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(group.size()), own.numel());
    return swap_bytes(group, MessageTag::sums, own, lengths);
  }
  static void check_layout(const std::string& own, const std::string& other);

  std::vector<std::string> compared_;  // calls and layouts of sums on devices that were compared
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/group_sum.ipp>
#endif
