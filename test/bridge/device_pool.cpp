// Tests pools of an accelerator's allocator, by an allocator that writes down what it is asked.
#include "test.hpp"

#include <functional>
#include <ikebana/memory/device_pool.hpp>
#include <memory>
#include <thread>

using namespace ikebana;

namespace test::device_pool {

/// An allocator with pools, of which it writes down what it is asked.
struct Pools {
  std::string said;
  bool refuses = false;
  std::function<bool(int)> filter;
  void createOrIncrefPool(c10::DeviceIndex i, c10::MempoolId_t id) { say("create", i, id); }
  void beginAllocateToPool(c10::DeviceIndex i, c10::MempoolId_t id, std::function<bool(int)> f) {
    if (refuses) throw std::runtime_error("no pool");
    say("begin", i, id), filter = std::move(f);
  }
  void endAllocateToPool(c10::DeviceIndex i, c10::MempoolId_t id) { say("end", i, id); }
  void releasePool(c10::DeviceIndex i, c10::MempoolId_t id) { say("release", i, id); }
  void emptyCache(c10::MempoolId_t id) { say("empty", first, id); }
  void say(const char* what, c10::DeviceIndex i, c10::MempoolId_t id) {
    if (said.empty()) first = i, name = id;
    said += what + std::string(i == first && id == name ? " " : "! ");
  }
  c10::DeviceIndex first = 0;
  c10::MempoolId_t name;
};
const c10::Device device(c10::kPrivateUse1, 1);

TEST_CASE("pool: of an accelerator, what is begun is ended and released, in every order") {
  Pools allocator;
  {
    DeviceMemPool pool(allocator, device);
    CHECK(pool.id().first == 0);
    CHECK((pool.id().second >> 63) == 1u);
    {
      UseDeviceMemPool use(pool);
    }
    UseDeviceMemPool use(pool, device);
    bool on_other_thread = true;
    std::thread([&] { on_other_thread = allocator.filter(0); }).join();
    CHECK(allocator.filter(0));
    CHECK_FALSE(on_other_thread);
  }
  CHECK(allocator.said == "create begin end release begin end release release empty ");
  allocator = {};
  auto pool = std::make_unique<DeviceMemPool<Pools>>(allocator, device);
  auto use = std::make_unique<UseDeviceMemPool<Pools>>(*pool);
  pool.reset();
  std::thread([&] { use.reset(); }).join();
  CHECK(allocator.said == "create begin release empty end release ");
}

TEST_CASE("pool: of an accelerator, a second scope, another device and a CPU are errors") {
  Pools allocator;
  CHECK(test::contains(test::message_of<BadValue>([&] { DeviceMemPool pool(allocator, at::kCPU); }),
                       "is cpu"));
  DeviceMemPool pool(allocator, device), other(allocator, device);
  CHECK(pool.id() != other.id());
  {
    UseDeviceMemPool use(pool), beside(other);
    CHECK(test::contains(test::message_of<Error>([&] { UseDeviceMemPool second(pool); }),
                         "a scope of this pool is open"));
  }
  const auto text = test::message_of<BadValue>(
      [&] { UseDeviceMemPool use(pool, c10::Device(c10::kPrivateUse1, 0)); });
  CHECK(test::contains(text, "the pool is of privateuseone:1"));
  allocator.refuses = true;
  CHECK(test::message_of([&] { UseDeviceMemPool use(pool); }) == "no pool");
  allocator.refuses = false;
  UseDeviceMemPool use(pool);  // it is not in use
}

}  // namespace test::device_pool
