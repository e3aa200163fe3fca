#pragma once
// Sends messages between ranks: tensors in place, and short texts.
#include <algorithm>
#include <cstring>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/failure/flight_recorder.hpp>
#include <ikebana/shard/group/transfer.hpp>
#include <optional>
#include <string>

namespace ikebana::detail {

/// The tag of a message: of the control calls, or of one unit or bucket. Only messages of one tag
/// meet, so that ranks that disagree wait until the time limit, instead of computing with each
/// other's bytes.
struct MessageTag {
  static constexpr int control = 0, control_rest = 1, sums = 2, weights = 3, update = 4,
                       buffers = 5, sparse = 6;
  static int gather(std::size_t unit) {
    return static_cast<int>(first_of_units + of_a_unit * unit);
  }
  /// Returns the tag of a reduction, which also uses the next tag.
  static int reduce(std::size_t unit) { return gather(unit) + 1; }
  static int spread(std::size_t unit) { return gather(unit) + 3; }
  /// Returns the tag of a sum that ranks pass on from one to the next. It also uses the next tag.
  static int pass(std::size_t unit) { return gather(unit) + 4; }

  /// Describes the messages of a tag, for errors. It is empty for control calls, which have names
  /// of their own. `units` are the names of units; other messages are named after buckets.
  static std::string text(int tag, const std::vector<std::string>& units);
  /// Returns the kind of exchange that the messages of a tag make.
  static ExchangeKind kind(int tag);

 private:
  static constexpr int first_of_units = 7, of_a_unit = 6;
};

/// Returns the device of the tensors that are sent and received.
c10::Device device_of(const TensorsOfRanks& to, const TensorsOfRanks& from);

/// Begins to send the tensors of `to[r]` to rank r, and to receive the tensors of `from[r]` in
/// place. A thread of its own begins messages of Gloo, in the order of calls.
Transfer begin_swap(c10d::Backend& backend, int tag, TensorsOfRanks to, TensorsOfRanks from);

/// Begins a sum over ranks in place, in the order that the backend chooses.
Transfer begin_all_reduce(c10d::Backend& backend, int tag, const at::Tensor& values);

/// The place of a rank in the tree by which rank 0 sends to all: the rank from which it receives,
/// and the ranks to which it passes on. They are the higher ranks that differ from it in one bit
/// below its lowest one. This takes log2(N) messages, one after the other.
struct TreePlace {
  std::optional<std::size_t> from;
  std::vector<std::size_t> to;

  TreePlace(std::int64_t rank, std::int64_t size);
};

/// The bytes of all ranks, and the messages that bring them.
struct SwappedBytes {
  std::vector<at::Tensor> all;
  Transfer transfer;
};

/// Allocates memory on the host without the dispatcher. In a step of `estimate`, the dispatcher
/// would make larger tensors without memory, but the bytes of texts are read.
at::Tensor empty_on_host(std::int64_t length, const at::TensorOptions& options);

/// Begins to send one tensor of bytes to all other ranks of the group, a Connection or a Subgroup,
/// and to receive theirs, which have these lengths.
template <class Group>
SwappedBytes begin_swap_bytes(Group& group, int tag, const at::Tensor& own,
                              const std::vector<std::int64_t>& lengths) {
  const auto rank = static_cast<std::size_t>(group.rank());
  TensorsOfRanks to(lengths.size()), from(lengths.size());
  SwappedBytes swapped;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    swapped.all.push_back(r == rank      ? own
                          : own.is_cpu() ? empty_on_host(lengths[r], own.options())
                                         : at::empty({lengths[r]}, own.options()));
    if (r != rank) to[r] = {own}, from[r] = {swapped.all[r]};
  }
  swapped.transfer = group.swap(tag, std::move(to), std::move(from), own.device());
  return swapped;
}
/// Returns the bytes of all ranks, which are few: it waits also until its own are sent.
template <class Group>
std::vector<at::Tensor> swap_bytes(Group& group, int tag, const at::Tensor& own,
                                   const std::vector<std::int64_t>& lengths) {
  SwappedBytes swapped = begin_swap_bytes(group, tag, own, lengths);
  group.wait(swapped.transfer);
  return std::move(swapped.all);
}
/// Returns the bytes of all ranks, which may be many. If a rank ended while a long message is on
/// its way, the others would wait until the time limit to send the rest. So ranks first tell each
/// other that they have received all, and then wait until theirs is sent.
template <class Group>
std::vector<at::Tensor> swap_long_bytes(Group& group, int tag, const at::Tensor& own,
                                        const std::vector<std::int64_t>& lengths) {
  SwappedBytes swapped = begin_swap_bytes(group, tag, own, lengths);
  group.wait_received(swapped.transfer);
  const std::vector<std::int64_t> ones(lengths.size(), 1);
  swap_bytes(group, MessageTag::control, at::zeros({1}, at::kByte), ones);
  group.wait(swapped.transfer);
  return std::move(swapped.all);
}

/// Returns the texts of all ranks of the group, in their order. The first bytes travel with the
/// length; the rest of a longer text follows in a message of its own. For short texts nothing is
/// allocated after they were sent, since the others may act on them then.
template <class Group>
std::vector<std::string> swap_texts(Group& group, const std::string& own) {
  constexpr std::size_t frame = 256, head = frame - sizeof(std::int64_t);
  const auto length = static_cast<std::int64_t>(own.size());
  at::Tensor first = at::zeros({frame}, at::kByte);
  auto* bytes = static_cast<char*>(first.mutable_data_ptr());
  std::memcpy(bytes, &length, sizeof length);
  std::memcpy(bytes + sizeof length, own.data(), std::min(own.size(), head));
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::vector<std::int64_t> frames(ranks, frame);
  std::vector<std::string> texts(ranks);
  std::vector<std::int64_t> rests(ranks);
  for (std::string& text : texts) text.reserve(head);
  const auto received = swap_bytes(group, MessageTag::control, first, frames);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto* from = static_cast<const char*>(received[r].const_data_ptr());
    std::int64_t all;
    std::memcpy(&all, from, sizeof all);
    const auto size = static_cast<std::size_t>(all);
    texts[r].assign(from + sizeof all, std::min(size, head));
    rests[r] = static_cast<std::int64_t>(size - texts[r].size());
  }
  if (*std::max_element(rests.begin(), rests.end()) == 0) return texts;
  const std::string rest = own.size() > head ? own.substr(head) : std::string();
  at::Tensor more = empty_on_host(static_cast<std::int64_t>(rest.size()), at::kByte);
  if (!rest.empty()) std::memcpy(more.mutable_data_ptr(), rest.data(), rest.size());
  const auto all = swap_long_bytes(group, MessageTag::control_rest, more, rests);
  for (std::size_t r = 0; r < all.size(); ++r)
    texts[r].append(static_cast<const char*>(all[r].const_data_ptr()), all[r].nbytes());
  return texts;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/messages.ipp>
#endif
