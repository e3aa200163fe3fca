// Defines the current device, the current streams and the events of the simulated accelerator.
#include "simulated_state.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>

namespace simulated {

namespace {

thread_local int current = 0;
thread_local std::array<std::size_t, devices> current_streams = {};

int checked_index(c10::Device device) {
  TORCH_CHECK(device.type() == c10::kPrivateUse1, "simulated: ", device, " is another device");
  const int index = device.has_index() ? device.index() : current;
  TORCH_CHECK(index >= 0 && index < devices, "simulated: invalid device ordinal ", index);
  return index;
}

StreamIndex first_stream(int device) {
  return static_cast<StreamIndex>(device) * streams_per_device;
}

RecordedPtr& recorded(void* event) { return *static_cast<RecordedPtr*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device d) const override {
    return device(std::exchange(current, checked_index(d)));
  }
  c10::Device getDevice() const override { return device(current); }
  void setDevice(c10::Device d) const override { current = checked_index(d); }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index()) current = d.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return devices; }

  c10::Stream getStream(c10::Device d) const override {
    return stream_of(current_stream(checked_index(d)));
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return stream_of(first_stream(checked_index(d)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    static std::array<std::atomic<unsigned>, devices> next = {};
    const int index = checked_index(d);
    const auto id = next.at(static_cast<std::size_t>(index))++ % (streams_per_device - 1) + 1;
    return stream_of(first_stream(index) + id);
  }
  c10::Stream getNewStream(c10::Device d, int priority) const override {
    return getStreamFromGlobalPool(d, priority != 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const int index = checked_index(stream.device());
    auto& id = current_streams.at(static_cast<std::size_t>(index));
    const auto before = std::exchange(id, index_of(stream) % streams_per_device);
    return stream_of(first_stream(index) + before);
  }

  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<RecordedPtr*>(event);
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex index,
              c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ", index,
                " does not match recording stream's device index ", stream.device_index(), ".");
    const Lock lock(state().mutex);
    if (!*event) *event = new RecordedPtr;
    recorded(*event) = state().streams.record(index_of(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (!event) return;
    const Lock lock(state().mutex);
    state().streams.await(index_of(stream), recorded(event));
  }
  bool queryEvent(void* event) const override {
    if (!event) return true;
    const Lock lock(state().mutex);
    return state().streams.query(recorded(event));
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "simulated: both events must be recorded");
    const Lock lock(state().mutex);
    for (void* event : {from, to}) {
      TORCH_CHECK(recorded(event)->reached, "simulated: both events must be completed");
      TORCH_CHECK(!recorded(event)->captured, "simulated: an event of a capture has no time");
    }
    const auto time = recorded(to)->time - recorded(from)->time;
    return std::chrono::duration<double, std::milli>(time).count();
  }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    const Lock lock(state().mutex);
    state().streams.wait(recorded(event));
  }

  bool queryStream(const c10::Stream& stream) const override {
    const Lock lock(state().mutex);
    return state().streams.query(index_of(stream));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    check_sync();
    const Lock lock(state().mutex);
    state().streams.wait(index_of(stream));
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    const Lock lock(state().mutex);
    state().streams.wait_device(index < 0 ? current : index);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    const Lock lock(state().mutex);
    state().memory.record_stream(data.get(), index_of(stream));
  }
};

}  // namespace

int current_device() { return current; }
StreamIndex current_stream(int device) {
  return first_stream(device) + current_streams.at(static_cast<std::size_t>(device));
}

void register_guard() { c10::impl::DeviceGuardImplRegistrar(c10::kPrivateUse1, new Guard); }

}  // namespace simulated
