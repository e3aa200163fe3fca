#pragma once
// Makes the events of a profile from what LibTorch's profiler recorded.
#include <ikebana/detail/torch_profiler.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <ikebana/observe/thread_ranges.hpp>

namespace ikebana::detail {

/// The forward of a unit, by the numbers of autograd's nodes that were made in it. A node of
/// backward has its number and the thread of its forward, so that its unit is known.
struct UnitForward {
  std::uint64_t thread, first_node, end_node;
  std::string unit;
};

/// Says whose forward made a node.
class UnitsOfNodes {
 public:
  explicit UnitsOfNodes(std::vector<UnitForward> calls);
  /// Returns the innermost unit; an empty text if no unit made the node.
  const std::string& unit(std::uint64_t thread, std::int64_t node) const;

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  std::vector<UnitForward> calls_;  // an outer one before its inner ones
  std::vector<std::size_t> outer_;
};

/// Makes the events of a recording, with the numbers that Python's torch.autograd.profiler_util
/// computes: which event is within which one follows from their threads and times, and an event's
/// memory is that of all changes between its begin and its end.
class ProfileEvents {
 public:
  using Recorded = torch::autograd::profiler::KinetoEvent;

  /// Without `has_device` the times of devices are 0. `ranges` are of other threads; they have no
  /// memory, since a change of memory is recorded without its thread.
  ProfileEvents(const std::vector<Recorded>& recorded, const std::vector<ThreadRange>& ranges,
                const UnitsOfNodes& units, bool has_device)
      : recorded_(recorded), ranges_(ranges), units_(units), has_device_(has_device) {}

  std::vector<ProfileEvent> make();

 private:
  using Index = std::ptrdiff_t;
  /// An event, and its place in the tree of calls.
  struct Node {
    ProfileEvent event;
    std::uint8_t scope = 0;
    double kernels = 0;  // the time of the kernels that it launched, in microseconds
    Index parent = -1, first_child = -1, last_child = -1, next = -1, children = 0;
    bool is_removed = false;
  };
  /// The changes of memory, sorted by time, with sums of all before each.
  struct Changes {
    std::vector<std::pair<std::int64_t, std::size_t>> times;  // and the index of the record
    std::vector<std::int64_t> cpu{0}, device{0};
    std::vector<std::int64_t> covers;  // how many events begin less end before each change
  };

  void read_changes();
  void read_events();
  Node node_of(const Recorded& recorded) const;
  void add_memory(ProfileEvent& event);
  void add_ranges();
  void link_devices();
  void add_uncovered_changes();
  void sort();
  void build_tree();
  void place(std::vector<Index>& open, Index child);
  /// Removes an event that is the only one within an event of the same name, such as an operator
  /// that calls itself below autograd.
  void remove_duplicates();
  void lift(Index child);
  void sum_up();
  void name_units();

  const std::vector<Recorded>& recorded_;
  const std::vector<ThreadRange>& ranges_;
  const UnitsOfNodes& units_;
  bool has_device_;
  Changes changes_;
  std::vector<Node> nodes_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profile_events.ipp>
#endif
