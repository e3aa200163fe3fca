#pragma once
#include <algorithm>
#include <array>
#include <ikebana/bridge/device_graph.hpp>
#include <ikebana/detail/form.hpp>
#include <mutex>
#include <vector>

namespace ikebana::bridge {

namespace detail {

using GraphMakers =
    std::array<std::atomic<GraphMaker*>,
               static_cast<std::size_t>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES)>;

IKEBANA_INLINE std::atomic<GraphMaker*>& graph_maker(c10::DeviceType type) {
  static GraphMakers makers = {};
  return makers.at(static_cast<std::size_t>(type));
}

/// The captures of all threads. A backward runs on a thread of autograd, so a capture is found by
/// the stream.
struct OpenCaptures {
  std::mutex mutex;
  std::vector<std::pair<c10::Stream, GraphCapture*>> all;
  std::atomic<int> count = 0;
};
IKEBANA_INLINE OpenCaptures& open_captures() {
  static auto& captures = *new OpenCaptures;  // threads of autograd may end after static objects
  return captures;
}

}  // namespace detail

IKEBANA_INLINE void register_graphs(c10::DeviceType type, GraphMaker& maker) {
  detail::graph_maker(type) = &maker;
}

IKEBANA_INLINE GraphMaker* graphs_of(c10::DeviceType type) { return detail::graph_maker(type); }

IKEBANA_INLINE GraphCapture::GraphCapture(DeviceGraph& graph, const c10::Stream& stream,
                                          PoolId pool)
    : graph_(&graph), stream_(stream), guard_(stream) {
  auto& captures = detail::open_captures();
  {
    std::lock_guard lock(captures.mutex);
    captures.all.emplace_back(stream, this);
    ++captures.count;
  }
  try {
    graph.begin(pool);
  } catch (...) {
    close();
    throw;
  }
}

IKEBANA_INLINE GraphCapture::~GraphCapture() {
  if (graph_ == nullptr) return;
  close();
  try {
    graph_->end();
  } catch (...) {  // it is given up: whatever ended it is thrown already
  }
}

IKEBANA_INLINE void GraphCapture::end() {
  close();
  std::exchange(graph_, nullptr)->end();
}

IKEBANA_INLINE void GraphCapture::close() noexcept {
  auto& captures = detail::open_captures();
  std::lock_guard lock(captures.mutex);
  std::erase_if(captures.all, [&](const auto& one) { return one.second == this; });
  captures.count = static_cast<int>(captures.all.size());
}

IKEBANA_INLINE GraphCapture* GraphCapture::present(c10::Device device) noexcept {
  auto& captures = detail::open_captures();
  if (captures.count == 0 || device.is_cpu()) return nullptr;
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  std::lock_guard lock(captures.mutex);
  for (const auto& [of, capture] : captures.all)
    if (of == stream) return capture;
  return nullptr;
}

}  // namespace ikebana::bridge
