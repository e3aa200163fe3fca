#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/profile_events.hpp>
#include <set>
#include <tuple>
#include <unordered_map>

namespace ikebana::detail {

// The numbers of libkineto's ActivityType.
inline constexpr std::uint8_t user_annotation = 1, gpu_user_annotation = 2;

inline double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1000;
}

/// Returns true for an event of which LibTorch says that it is hidden; some versions say so of
/// none.
template <class Recorded>
bool is_hidden(const Recorded& recorded) {
  if constexpr (requires { recorded.isHiddenEvent(); }) return recorded.isHiddenEvent();
  else return false;
}
/// Returns true for records that are no events of their own: Python leaves out the same.
inline bool is_left_out(const torch::autograd::profiler::KinetoEvent& recorded,
                        const std::string& name) {
  static const std::set<std::string> names{"[memory]",
                                           "[OutOfMemory]",
                                           "profiler::_record_function_enter",
                                           "profiler::_record_function_enter_new",
                                           "profiler::_record_function_exit",
                                           "aten::is_leaf",
                                           "aten::output_nr",
                                           "aten::_version"};
  return names.contains(name) || is_hidden(recorded);
}

inline bool is_on_cpu(c10::DeviceType type) {
  return type == c10::DeviceType::CPU || type == c10::DeviceType::MKLDNN ||
         type == c10::DeviceType::IDEEP;
}
inline bool is_on_accelerator(c10::DeviceType type) {
  return type == c10::DeviceType::CUDA || type == c10::DeviceType::HIP ||
         type == c10::DeviceType::XPU || type == c10::DeviceType::PrivateUse1;
}

IKEBANA_INLINE UnitsOfNodes::UnitsOfNodes(std::vector<UnitForward> calls)
    : calls_(std::move(calls)) {
  std::stable_sort(calls_.begin(), calls_.end(), [](const UnitForward& a, const UnitForward& b) {
    return std::tuple(a.thread, a.first_node, ~a.end_node) <
           std::tuple(b.thread, b.first_node, ~b.end_node);
  });
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    while (!open.empty() && (calls_[open.back()].thread != calls_[i].thread ||
                             calls_[open.back()].end_node <= calls_[i].first_node))
      open.pop_back();
    outer_.push_back(open.empty() ? none : open.back());
    open.push_back(i);
  }
}

IKEBANA_INLINE const std::string& UnitsOfNodes::unit(std::uint64_t thread,
                                                     std::int64_t node) const {
  static const std::string no_unit;
  if (node < 0) return no_unit;
  const auto number = static_cast<std::uint64_t>(node);
  const auto after = std::upper_bound(calls_.begin(), calls_.end(), std::pair(thread, number),
                                      [](const auto& key, const UnitForward& c) {
                                        return key < std::pair(c.thread, c.first_node);
                                      });
  if (after == calls_.begin()) return no_unit;
  auto at = static_cast<std::size_t>(after - calls_.begin()) - 1;
  while (at != none && calls_[at].end_node <= number) at = outer_[at];
  return at == none || calls_[at].thread != thread ? no_unit : calls_[at].unit;
}

IKEBANA_INLINE std::vector<ProfileEvent> ProfileEvents::make() {
  read_changes();
  read_events();
  link_devices();
  add_uncovered_changes();
  add_ranges();
  sort();
  build_tree();
  remove_duplicates();
  sum_up();
  name_units();
  std::vector<ProfileEvent> events;
  events.reserve(nodes_.size());
  for (Node& node : nodes_)
    if (!node.is_removed) events.push_back(std::move(node.event));
  return events;
}

IKEBANA_INLINE void ProfileEvents::read_changes() {
  for (std::size_t i = 0; i < recorded_.size(); ++i)
    if (recorded_[i].name() == "[memory]") changes_.times.emplace_back(recorded_[i].startNs(), i);
  std::sort(changes_.times.begin(), changes_.times.end());
  for (const auto& [time, i] : changes_.times) {
    const c10::DeviceType type = recorded_[i].deviceType();
    const std::int64_t bytes = recorded_[i].nBytes();
    changes_.cpu.push_back(changes_.cpu.back() + (is_on_cpu(type) ? bytes : 0));
    changes_.device.push_back(changes_.device.back() + (is_on_accelerator(type) ? bytes : 0));
  }
  changes_.covers.assign(changes_.times.size() + 1, 0);
}

IKEBANA_INLINE void ProfileEvents::read_events() {
  for (const Recorded& recorded : recorded_) {
    if (is_left_out(recorded, recorded.name())) continue;
    Node node = node_of(recorded);
    if (node.event.device_type == c10::DeviceType::CPU) add_memory(node.event);
    nodes_.push_back(std::move(node));
  }
}

IKEBANA_INLINE ProfileEvents::Node ProfileEvents::node_of(const Recorded& recorded) const {
  Node node;
  ProfileEvent& event = node.event;
  event.name = c10::demangle(recorded.name().c_str());
  event.start_ns = static_cast<std::int64_t>(recorded.startNs());
  event.end_ns = static_cast<std::int64_t>(recorded.endNs());
  event.thread = recorded.startThreadId(), event.fwd_thread = recorded.fwdThreadId();
  event.sequence_nr = recorded.sequenceNr();
  event.correlation_id = recorded.correlationId();
  event.linked_correlation_id = recorded.linkedCorrelationId();
  if (recorded.hasShapes()) event.input_shapes = recorded.shapes().vec();
  event.flops = recorded.flops();
  event.device_type = recorded.deviceType(), event.device_index = recorded.deviceIndex();
  event.is_async = recorded.isAsync() || recorded.startThreadId() != recorded.endThreadId();
  const std::uint8_t activity = recorded.activityType();
  event.is_user_annotation = activity == user_annotation || activity == gpu_user_annotation;
  if (event.device_type == c10::DeviceType::CPU)
    event.cpu_time_total = microseconds(event.end_ns - event.start_ns);
  node.scope = recorded.scope();
  return node;
}

IKEBANA_INLINE void ProfileEvents::add_memory(ProfileEvent& event) {
  const auto index = [&](std::int64_t time, std::size_t record) {
    return static_cast<std::size_t>(
        std::lower_bound(changes_.times.begin(), changes_.times.end(), std::pair(time, record)) -
        changes_.times.begin());
  };
  const std::size_t begin = index(event.start_ns, 0), end = index(event.end_ns + 1, 0);
  if (begin >= end) return;
  event.cpu_memory_usage = changes_.cpu[end] - changes_.cpu[begin];
  event.device_memory_usage = changes_.device[end] - changes_.device[begin];
  ++changes_.covers[begin], --changes_.covers[end];
}

/// Kernels count for the event that launched them; a call of the device's library, which is an
/// event of the CPU, is moved to the thread of that event.
IKEBANA_INLINE void ProfileEvents::link_devices() {
  std::unordered_map<std::uint64_t, std::vector<Index>> launched;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (const std::uint64_t by = nodes_[i].event.linked_correlation_id; by != 0)
      launched[by].push_back(static_cast<Index>(i));
  for (Node& node : nodes_) {
    const ProfileEvent& event = node.event;
    const auto found = launched.find(event.correlation_id);
    if (event.linked_correlation_id != 0 || event.device_type != c10::DeviceType::CPU ||
        event.is_async || found == launched.end())
      continue;
    for (const Index i : found->second) {
      ProfileEvent& other = nodes_[static_cast<std::size_t>(i)].event;
      if (is_on_accelerator(other.device_type))
        node.kernels += microseconds(other.end_ns - other.start_ns);
      else if (other.device_type == c10::DeviceType::CPU) other.thread = event.thread;
    }
  }
}

IKEBANA_INLINE void ProfileEvents::add_uncovered_changes() {
  std::vector<std::size_t> uncovered;
  std::int64_t open = 0;
  for (std::size_t k = 0; k < changes_.times.size(); ++k)
    if ((open += changes_.covers[k]) == 0) uncovered.push_back(changes_.times[k].second);
  std::sort(uncovered.begin(), uncovered.end());
  for (std::size_t i = 0; i < recorded_.size(); ++i)
    if (recorded_[i].name() == "[OutOfMemory]") uncovered.push_back(i);
  for (const std::size_t i : uncovered) {
    const Recorded& recorded = recorded_[i];
    Node node;
    node.event.name = recorded.name();
    node.event.start_ns = node.event.end_ns = static_cast<std::int64_t>(recorded.startNs());
    node.event.thread = node.event.fwd_thread = recorded.startThreadId();
    if (is_on_cpu(recorded.deviceType())) node.event.cpu_memory_usage = recorded.nBytes();
    if (is_on_accelerator(recorded.deviceType()))
      node.event.device_memory_usage = recorded.nBytes();
    nodes_.push_back(std::move(node));
  }
}

IKEBANA_INLINE void ProfileEvents::sort() {
  std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    return std::pair(a.event.start_ns, -a.event.end_ns) <
           std::pair(b.event.start_ns, -b.event.end_ns);
  });
}

IKEBANA_INLINE void ProfileEvents::build_tree() {
  std::unordered_map<std::uint64_t, std::vector<Index>> open;  // by thread, the innermost last
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const ProfileEvent& event = nodes_[i].event;
    if (!event.is_async && event.device_type == c10::DeviceType::CPU)
      place(open[event.thread], static_cast<Index>(i));
  }
}

IKEBANA_INLINE void ProfileEvents::place(std::vector<Index>& open, Index child) {
  auto at = [this](Index i) -> Node& { return nodes_[static_cast<std::size_t>(i)]; };
  Node& node = at(child);
  while (!open.empty()) {
    Node& parent = at(open.back());
    if (node.event.start_ns < parent.event.end_ns && node.event.end_ns <= parent.event.end_ns) {
      node.parent = open.back();
      (parent.first_child < 0 ? parent.first_child : at(parent.last_child).next) = child;
      parent.last_child = child, ++parent.children;
      break;
    }
    open.pop_back();
  }
  open.push_back(child);
}

IKEBANA_INLINE void ProfileEvents::remove_duplicates() {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.is_removed || node.parent < 0) continue;
      const Node& parent = nodes_[static_cast<std::size_t>(node.parent)];
      if (parent.event.name != node.event.name || parent.children != 1) continue;
      lift(static_cast<Index>(i));
      again = true;
    }
  }
}

IKEBANA_INLINE void ProfileEvents::lift(Index child) {
  Node& node = nodes_[static_cast<std::size_t>(child)];
  Node& parent = nodes_[static_cast<std::size_t>(node.parent)];
  parent.first_child = node.first_child, parent.last_child = node.last_child;
  parent.children = node.children, parent.kernels = node.kernels;
  for (Index i = node.first_child; i >= 0; i = nodes_[static_cast<std::size_t>(i)].next)
    nodes_[static_cast<std::size_t>(i)].parent = node.parent;
  node.is_removed = true;
}

IKEBANA_INLINE void ProfileEvents::sum_up() {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    ProfileEvent& event = node->event;
    if (node->is_removed || event.is_async) continue;
    if (event.device_type != c10::DeviceType::CPU) {
      event.device_time_total = event.self_device_time_total =
          has_device_ ? microseconds(event.end_ns - event.start_ns) : 0;
      continue;
    }
    event.self_cpu_time_total = event.cpu_time_total;
    event.self_cpu_memory_usage = event.cpu_memory_usage;
    event.self_device_memory_usage = event.device_memory_usage;
    event.device_time_total = event.self_device_time_total = has_device_ ? node->kernels : 0;
    for (Index i = node->first_child; i >= 0; i = nodes_[static_cast<std::size_t>(i)].next) {
      const ProfileEvent& child = nodes_[static_cast<std::size_t>(i)].event;
      event.self_cpu_time_total -= child.cpu_time_total;
      event.self_cpu_memory_usage -= child.cpu_memory_usage;
      event.self_device_memory_usage -= child.device_memory_usage;
      event.device_time_total += child.device_time_total;
    }
  }
}

IKEBANA_INLINE void ProfileEvents::name_units() {
  static constexpr std::string_view prefix = "unit: ";
  for (Node& node : nodes_) {
    ProfileEvent& event = node.event;
    if (node.parent >= 0) event.unit = nodes_[static_cast<std::size_t>(node.parent)].event.unit;
    if (event.is_user_annotation && event.name.starts_with(prefix))
      event.unit = event.name.substr(prefix.size());
    else if (event.fwd_thread != 0 && event.sequence_nr >= 0)
      event.unit = units_.unit(event.fwd_thread, event.sequence_nr);
  }
}

IKEBANA_INLINE void ProfileEvents::add_ranges() {
  for (const ThreadRange& range : ranges_) {
    Node node;
    ProfileEvent& event = node.event;
    event.name = range.name, event.start_ns = range.start_ns, event.end_ns = range.end_ns;
    event.thread = range.thread, event.is_user_annotation = true;
    event.cpu_time_total = microseconds(range.end_ns - range.start_ns);
    nodes_.push_back(std::move(node));
  }
}

}  // namespace ikebana::detail
