// Captures operators of the simulated accelerator and computes them again, as CUDA's graphs do. A
// capture computes nothing and reads nothing on the host; a graph uses the addresses that it was
// captured with.
#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <ikebana/bridge/device_graph.hpp>

#include "simulated_generator.hpp"
#include "simulated_state.hpp"

namespace simulated {

namespace {

constexpr int undefined_byte = 0xCD;

at::Generator engine(StreamIndex stream) {
  return engine_of(std::nullopt, stream_of(stream).device_index());
}

}  // namespace

Captured* capture_of(StreamIndex stream) {
  const Lock lock(state().mutex);
  const auto found = state().captures.find(stream);
  return found == state().captures.end() ? nullptr : found->second.get();
}

void refuse_captured(StreamIndex stream, const char* what) {
  Captured* capture = capture_of(stream);
  if (capture) capture->failed = true;
  TORCH_CHECK(!capture, "simulated: operation not permitted when stream is capturing: ", what);
}

Captured::Captured(StreamIndex by, std::shared_ptr<Pool> with)
    : stream(by),
      pool(std::move(with)),
      pool_before_(pool->block()->memory, pool->block()->memory + pool->most()),
      generator_before_(engine(by).get_state()) {}

void Captured::note(const BlockPtr& block, bool writes) {
  if (block->is_pool) return;
  auto found = std::find_if(outside_.begin(), outside_.end(),
                            [&](const Outside& one) { return one.block == block; });
  if (found == outside_.end()) found = outside_.insert(found, {block, false, {}});
  if (!writes || found->is_written) return;
  found->is_written = true;
  found->before.assign(block->memory, block->memory + block->size);
}

void Captured::undo() {
  for (Outside& one : outside_) {
    if (one.is_written) std::memcpy(one.block->memory, one.before.data(), one.before.size());
    one.before = {};
  }
  char* const memory = pool->block()->memory;
  std::memset(memory, undefined_byte, pool->most());
  std::copy(pool_before_.begin(), pool_before_.end(), memory);
  pool_before_ = {};
  engine(stream).set_state(generator_before_);
}

void Captured::replay(StreamIndex on) const {
  auto& streams = state().streams;
  streams.drain(on);
  streams.launch(on);
  state().note_launch("graph");
  for (const Outside& one : outside_) {
    TORCH_CHECK(!one.block->freed, "simulated: a graph uses ", one.block->place(),
                " that were freed");
    if (one.is_written) streams.write(*one.block, on, "graph");
    else streams.read(*one.block, on, "graph");
  }
  streams.write(*pool->block(), on, "graph");
  for (const auto& work : work_) work();
}

namespace {

class Graph final : public ikebana::bridge::DeviceGraph {
 public:
  explicit Graph(c10::Device device) : device_(device) {}
  void begin(c10::MempoolId_t pool) override;
  void end() override;
  void replay() override {
    const Lock lock(state().mutex);
    TORCH_CHECK(captured_, "simulated: this graph is empty");
    captured_->replay(current_stream(device_.index()));
  }

 private:
  c10::Device device_;
  StreamIndex stream_ = 0;
  std::shared_ptr<Captured> captured_;
};

std::map<c10::MempoolId_t, std::shared_ptr<Pool>>& pools() {
  static auto& pools = *new std::map<c10::MempoolId_t, std::shared_ptr<Pool>>;
  return pools;
}

void Graph::begin(c10::MempoolId_t pool) {
  const Lock lock(state().mutex);
  stream_ = current_stream(device_.index());
  TORCH_CHECK(stream_of(stream_).id() != 0, "simulated: the default stream cannot be captured");
  TORCH_CHECK(!capture_of(stream_), "simulated: this stream is captured already");
  auto& memory = pools()[pool];
  if (!memory) memory = state().memory.make_pool(device_.index());
  for (StreamIndex one = 0; one < all_streams; ++one) state().streams.drain(one);
  state().captures[stream_] = std::make_shared<Captured>(stream_, memory);
}

void Graph::end() {
  const Lock lock(state().mutex);
  auto open = state().captures.extract(stream_);
  TORCH_CHECK(!open.empty(), "simulated: this stream is not captured");
  open.mapped()->undo();
  TORCH_CHECK(!open.mapped()->failed,
              "simulated: operation failed due to a previous error during "
              "capture");
  captured_ = std::move(open.mapped());
}

struct Maker final : ikebana::bridge::GraphMaker {
  std::unique_ptr<ikebana::bridge::DeviceGraph> make_graph(c10::Device device) override {
    return std::make_unique<Graph>(device);
  }
  c10::MempoolId_t new_pool() override {
    static std::atomic<std::uint64_t> pools = 0;
    return {0, ++pools};
  }
};

}  // namespace

std::size_t graph_memory() {
  const Lock lock(state().mutex);
  std::size_t bytes = 0;
  for (const auto& [id, pool] : pools()) bytes += pool->most();
  return bytes;
}

void register_graphs() {
  static auto& maker = *new Maker;
  ikebana::bridge::register_graphs(c10::kPrivateUse1, maker);
}

}  // namespace simulated
