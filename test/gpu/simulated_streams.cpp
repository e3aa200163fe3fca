// Tests streams of the simulated accelerator: what is done late, in which order, and what has no
// order.
#include "simulated_state.hpp"

#include <c10/util/Exception.h>

#include <algorithm>

namespace simulated {

namespace {

void learn(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

StreamIndex index_of(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == c10::kPrivateUse1, "simulated: a stream of ",
              stream.device());
  return static_cast<StreamIndex>(stream.device_index()) * streams_per_device +
         static_cast<StreamIndex>(stream.id());
}

c10::Stream stream_of(StreamIndex index) {
  const auto on = device(static_cast<int>(index / streams_per_device));
  return c10::Stream(c10::Stream::UNSAFE, on,
                     static_cast<c10::StreamId>(index % streams_per_device));
}

State& state() {
  static auto& state = *new State;  // engine threads may end after static objects
  return state;
}

void State::error(std::string sentence) {
  const bool known = std::find(errors.begin(), errors.end(), sentence) != errors.end();
  if (!known && errors.size() < 100) errors.push_back(std::move(sentence));
}

void check_sync() {
  TORCH_CHECK(state().sync_guards == 0, "called a synchronizing operation on a simulated device");
}

std::uint64_t Streams::launch(StreamIndex stream) {
  auto& seen = seen_.at(stream);
  learn(seen, host_);
  return ++seen.at(stream);
}

void Streams::do_next(StreamIndex stream) {
  auto& queue = queues_.at(stream);
  const Work work = std::move(queue.front());
  queue.pop_front();
  if (work.await) reach(work.await);
  if (work.copy) work.copy();
  if (work.reach) work.reach->reached = true;
}

void Streams::drain(StreamIndex stream) {
  while (!idle(stream)) do_next(stream);
}

void Streams::reach(const RecordedPtr& event) {
  while (!event->reached && !idle(event->stream)) do_next(event->stream);
}

RecordedPtr Streams::record(StreamIndex stream) {
  if (capture_of(stream))
    return std::make_shared<Recorded>(Recorded{stream, {}, false_queries, true, true});
  launch(stream);
  auto event = std::make_shared<Recorded>(Recorded{stream, seen_.at(stream), false_queries});
  enqueue(stream, {.copy = {}, .reach = event, .await = {}});
  return event;
}

void Streams::await(StreamIndex stream, const RecordedPtr& event) {
  const bool is_captured = capture_of(stream) != nullptr;
  TORCH_CHECK(is_captured == event->captured,
              "simulated: a stream that is captured and one that is not wait for each other");
  if (is_captured) return;
  learn(seen_.at(stream), event->clock);
  if (!event->reached) enqueue(stream, {.copy = {}, .reach = {}, .await = event});
}

bool Streams::query(const RecordedPtr& event) {
  TORCH_CHECK(!event->captured, "simulated: an event of a capture cannot be asked");
  if (!event->reached && event->false_queries-- > 0) return false;
  reach(event);
  learn(host_, event->clock);
  return true;
}

bool Streams::query(StreamIndex stream) {
  const bool done = idle(stream);
  drain(stream);
  if (done) learn(host_, seen_.at(stream));
  return done;
}

void Streams::wait(StreamIndex stream) {
  refuse_captured(stream, "the host waits for it");
  ++state().synchronisations;
  drain(stream);
  learn(host_, seen_.at(stream));
}

void Streams::wait(const RecordedPtr& event) {
  TORCH_CHECK(!event->captured, "simulated: the host waits for an event of a capture");
  ++state().synchronisations;
  reach(event);
  learn(host_, event->clock);
}

void Streams::wait_device(int device) {
  const auto first = static_cast<StreamIndex>(device) * streams_per_device;
  for (auto stream = first; stream < first + streams_per_device; ++stream)
    refuse_captured(stream, "the host waits for the device");
  ++state().synchronisations;
  for (auto stream = first; stream < first + streams_per_device; ++stream) {
    drain(stream);
    learn(host_, seen_.at(stream));
  }
}

void Streams::join(StreamIndex a, StreamIndex b) {
  drain(a);
  drain(b);
  learn(seen_.at(a), seen_.at(b));
  learn(seen_.at(b), seen_.at(a));
}

std::size_t Streams::copies() const {
  std::size_t count = 0;
  for (const auto& queue : queues_)
    for (const auto& work : queue)
      if (work.copy) ++count;
  return count;
}

bool Streams::ordered(const Access& access, StreamIndex later) const {
  const auto stream = access.stream;
  return stream == later || access.time <= seen_.at(later).at(stream) ||
         access.time <= host_.at(stream);
}

namespace {

void unordered(const Block& block, const Access& before, StreamIndex stream, const char* what,
               const char* verb) {
  state().error(what + (" on stream " + std::to_string(stream)) + ' ' + verb + ' ' + block.place() +
                " without waiting for " + before.what + " on stream " +
                std::to_string(before.stream));
}

}  // namespace

void Streams::read(Block& block, StreamIndex stream, const char* what) {
  if (!ordered(block.write, stream)) unordered(block, block.write, stream, what, "reads");
  block.reads[stream] = {stream, seen_.at(stream).at(stream), what};
}

void Streams::write(Block& block, StreamIndex stream, const char* what) {
  if (!ordered(block.write, stream)) unordered(block, block.write, stream, what, "writes");
  for (const auto& [_, before] : block.reads)
    if (!ordered(before, stream)) unordered(block, before, stream, what, "writes");
  block.reads.clear();
  block.write = {stream, seen_.at(stream).at(stream), what};
}

std::vector<std::string> errors() {
  const Lock lock(state().mutex);
  return state().errors;
}
std::vector<std::string> take_errors() {
  const Lock lock(state().mutex);
  return std::exchange(state().errors, {});
}
void set_false_queries(int count) {
  const Lock lock(state().mutex);
  state().streams.false_queries = count;
}
std::size_t set_memory_limit(std::size_t bytes) {
  const Lock lock(state().mutex);
  return std::exchange(state().memory.limit, bytes);
}
std::int64_t synchronisations() { return state().synchronisations; }

std::size_t copies_in_flight() {
  const Lock lock(state().mutex);
  return state().streams.copies();
}

Launches::Launches() {
  const Lock lock(state().mutex);
  TORCH_CHECK(!state().launches, "simulated: launches are being noted already");
  state().launches.emplace();
}
Launches::~Launches() {
  const Lock lock(state().mutex);
  state().launches.reset();
}
std::vector<std::string> Launches::names() const {
  const Lock lock(state().mutex);
  return *state().launches;
}

SyncGuard::SyncGuard() { ++state().sync_guards; }
SyncGuard::~SyncGuard() { --state().sync_guards; }

}  // namespace simulated
