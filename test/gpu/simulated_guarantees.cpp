// The simulated accelerator catches what it is there to catch: one planted mistake per case, and
// the same without the mistake.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "device.hpp"
#include "simulated.hpp"

namespace gpu::simulated_guarantees {

/// These run only on the simulated device, and with no errors from cases before.
#define SIMULATED_CASE()                                                       \
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only"); \
  simulated::install();                                                        \
  simulated::take_errors()

const at::Tensor& numbers() {
  static const at::Tensor numbers = at::arange(1, 5, at::kFloat);
  return numbers;
}
at::Tensor on_device(int index = 0) { return numbers().to(simulated::device(index)); }
at::Tensor pinned(const at::Tensor& values) {
  return at::empty(values.sizes(), values.options().pinned_memory(true)).copy_(values);
}
c10::impl::VirtualGuardImpl device_impl() { return c10::impl::VirtualGuardImpl(c10::kPrivateUse1); }
c10::Stream other_stream() {
  return device_impl().getStreamFromGlobalPool(simulated::device(), false);
}
c10::Event recorded_on(const c10::Stream& stream) {
  c10::Event event(c10::kPrivateUse1);
  event.record(stream);
  return event;
}
bool reports(const std::string& part) {
  for (const auto& error : simulated::take_errors())
    if (test::contains(error, part)) return true;
  return false;
}

TEST_CASE("simulated: an operator gives the CPU's bits, on the device of its arguments") {
  SIMULATED_CASE();
  for (int index = 0; index < simulated::devices; ++index) {
    const auto y = at::softmax(on_device(index).exp() / 3, 0);
    CHECK(y.device() == simulated::device(index));
    CHECK(test::same_bits(y.cpu(), at::softmax(numbers().exp() / 3, 0)));
  }
  CHECK(simulated::errors().empty());
}

TEST_CASE("simulated: views share memory, and a result that is too small grows") {
  SIMULATED_CASE();
  auto x = on_device();
  x.view({2, 2}).select(0, 1).t().mul_(10);
  CHECK(x.cpu()[3].item<float>() == 40);
  auto out = at::empty({0}, x.options());
  at::add_out(out, x, x);
  CHECK(test::same_bits(out.cpu(), (x + x).cpu()));
  const auto parts = at::_unsafe_index(x, {at::arange(2, x.options().dtype(at::kLong))});
  CHECK(test::same_bits(parts.cpu(), x.cpu().slice(0, 0, 2)));
}

TEST_CASE("simulated: tensors of two devices, or of the host, do not mix") {
  SIMULATED_CASE();
  const auto part = "Expected all tensors to be on the same device";
  auto message = [](auto&& f) { return test::message_of<c10::Error>(f); };
  CHECK(test::contains(message([] { on_device(0) + on_device(1); }), part));
  CHECK(test::contains(message([] { on_device(0) + numbers(); }), part));
  CHECK(test::contains(message([] { numbers().clone().add_(on_device(0)); }), part));
  CHECK(test::contains(message([] { at::cat({on_device(0), numbers()}); }), part));
  auto found_on_host = [] {
    const std::vector<at::Tensor> values{on_device()};
    at::_fused_sgd_(values, values, {}, 0, 0, 0.1, 0, false, false, true, {}, at::ones({}));
  };
  CHECK(test::contains(message(found_on_host), part));
  CHECK(test::same_bits((on_device() * at::scalar_tensor(2)).cpu(), numbers() * 2));
}

TEST_CASE("simulated: without an index, the current device") {
  SIMULATED_CASE();
  const c10::DeviceGuard guard(simulated::device(1));
  CHECK(at::empty({1}, c10::Device(c10::kPrivateUse1)).device() == simulated::device(1));
  c10::Event event(c10::kPrivateUse1);
  event.record(device_impl().getStream(simulated::device(0)));
  const auto elsewhere = device_impl().getStream(simulated::device(1));
  CHECK(test::contains(test::message_of<c10::Error>([&] { event.record(elsewhere); }), "device"));
}

TEST_CASE("simulated: the host that reads device memory crashes") {
  SIMULATED_CASE();
  const auto x = on_device();
  const auto child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    _exit(*static_cast<volatile const char*>(x.const_data_ptr()) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("simulated: a number read by the host is caught, an event awaited is not") {
  SIMULATED_CASE();
  const auto x = on_device(), mask = x > 2;
  auto host = pinned(numbers());
  const simulated::SyncGuard guard;
  const auto part = "called a synchronizing operation";
  auto caught = [&](auto&& f) { return test::contains(test::message_of<c10::Error>(f), part); };
  CHECK(caught([&] { x.sum().item(); }));
  CHECK(caught([&] { x.cpu(); }));
  CHECK(caught([&] { numbers().to(simulated::device()); }));
  CHECK(caught([&] { x.index({mask}); }));
  CHECK(caught([&] { x.nonzero(); }));
  CHECK(caught([&] { x.copy_(host); }));
  CHECK(caught([&] { device_impl().getStream(x.device()).synchronize(); }));
  const auto before = simulated::synchronisations();
  host.copy_(x, true);
  x.add_(x.max() * 2).masked_fill_(mask, 0);
  CHECK(simulated::synchronisations() == before);
  recorded_on(device_impl().getStream(x.device())).synchronize();
  CHECK(simulated::synchronisations() == before + 1);
}

TEST_CASE("simulated: a copy to pinned memory is late") {
  SIMULATED_CASE();
  const auto x = on_device();
  auto host = at::zeros({4}, at::TensorOptions().pinned_memory(true));
  CHECK(host.is_pinned());
  host.copy_(x, /*non_blocking=*/true);
  const auto event = recorded_on(device_impl().getStream(x.device()));
  CHECK_FALSE(test::same_bits(host, numbers()));
  CHECK(simulated::copies_in_flight() == 1);
  CHECK_FALSE(event.query());
  CHECK_FALSE(test::same_bits(host, numbers()));
  CHECK(event.query());
  CHECK(test::same_bits(host, numbers()));
  const auto also = x.to(at::kCPU, /*non_blocking=*/true);
  CHECK_FALSE(test::same_bits(also, numbers()));
  device_impl().synchronizeDevice(0);
  CHECK(test::same_bits(also, numbers()));
  auto pageable = at::zeros({4});
  CHECK(test::same_bits(pageable.copy_(x, true), numbers()));
}

TEST_CASE("simulated: pinned memory that the host overwrites before its copy was done") {
  SIMULATED_CASE();
  auto host = pinned(numbers());
  auto x = at::empty({4}, host.options().device(simulated::device()).pinned_memory(false));
  x.copy_(host, true);
  host.zero_();
  CHECK(test::same_bits(x.cpu(), at::zeros({4})));
}

TEST_CASE("simulated: a copy on another stream needs an event") {
  SIMULATED_CASE();
  const auto host = pinned(numbers());
  const auto side = other_stream();
  auto copied = [&](bool waits) {
    auto x = at::empty({4}, at::TensorOptions(simulated::device()));
    {
      const c10::StreamGuard guard(side);
      x.copy_(host, true);
    }
    const auto main = device_impl().getStream(x.device());
    if (waits) recorded_on(side).block(main);
    const auto y = x + 0;
    recorded_on(side).block(main);
    return y.cpu();
  };
  CHECK_FALSE(test::same_bits(copied(false), numbers()));
  CHECK(reports("reads 16 bytes of simulated:0 without waiting for copy_"));
  CHECK(test::same_bits(copied(true), numbers()));
  CHECK(simulated::take_errors().empty());
}

TEST_CASE("simulated: memory overwritten while another stream copies it") {
  SIMULATED_CASE();
  const auto side = other_stream(), main = device_impl().getStream(simulated::device());
  auto saved = [&](bool waits) {
    auto x = on_device(), host = pinned(numbers());
    recorded_on(main).block(side);
    {
      const c10::StreamGuard guard(side);
      host.copy_(x, true);
    }
    if (waits) recorded_on(side).block(main);
    x.zero_();
    side.synchronize();
    return host;
  };
  CHECK(test::same_bits(saved(false), at::zeros({4})));
  CHECK(reports("writes 16 bytes of simulated:0 without waiting for copy_"));
  CHECK(test::same_bits(saved(true), numbers()));
  CHECK(simulated::take_errors().empty());
}

TEST_CASE("simulated: memory freed while another stream uses it needs record_stream") {
  SIMULATED_CASE();
  const auto side = other_stream(), main = device_impl().getStream(simulated::device());
  auto saved = [&](bool records) {
    auto host = pinned(numbers());
    {
      const auto x = on_device();
      recorded_on(main).block(side);
      const c10::StreamGuard guard(side);
      host.copy_(x, true);
      if (records) x.record_stream(side);
    }
    side.synchronize();
    return host;
  };
  CHECK_FALSE(test::same_bits(saved(false), numbers()));
  CHECK(reports("record_stream is missing"));
  CHECK(test::same_bits(saved(true), numbers()));
  CHECK(simulated::take_errors().empty());
}

}  // namespace gpu::simulated_guarantees
