#include <filesystem>

#include "guarantees.hpp"

namespace gpu {

namespace state_parts {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ikebana-gpu-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
};

auto trainer_on(c10::Device where, double dropout = 0.2) {
  Net model = net(dropout);
  model->to(where);
  return Trainer{model, adamw, Precision<FP16>{.init_scale = 1024}, EMA{}};
}
StateDict on_host(const StateDict& state) {
  StateDict all;
  for (const auto& [name, t] : state) all[name] = t.cpu();
  return all;
}
/// Leaves out the generator of the device, which a CPU does not have.
StateDict without_generator(StateDict state) {
  state.erase("ikebana.trainer.device_generator");
  return state;
}
template <class T>
Tensors losses(T& trainer, const std::vector<Texts>& batches) {
  Tensors all;
  for (const auto& batch : batches) all.push_back(trainer.step(batch).mean().cpu());
  return all;
}

}  // namespace state_parts
using namespace state_parts;

TEST_CASE("a training that is saved and loaded goes on to the bit") {
  const Deterministic deterministic;
  const Folder folder;
  const auto batches = texts(), more = texts(7);
  torch::manual_seed(11);
  auto first = trainer_on(device());
  losses(first, batches);
  first.save(folder.path / "state");
  const auto on = losses(first, more);
  torch::manual_seed(12);
  auto second = trainer_on(device());
  second.load(folder.path / "state");
  CHECK(test::same_bits(losses(second, more), on));
  CHECK(test::same_state(on_host(second.state()), on_host(first.state())));
}
TEST_CASE("a state goes from the device to the CPU and back") {
  const Folder folder;
  auto there = trainer_on(device());
  losses(there, texts());
  there.save(folder.path / "state");
  auto here = trainer_on(at::kCPU);
  here.load(folder.path / "state");
  const auto state = without_generator(on_host(there.state()));
  CHECK(test::same_state(state, here.state()));
  here.save(folder.path / "back");
  auto back = trainer_on(device());
  back.load(folder.path / "back");
  CHECK(test::same_state(state, without_generator(on_host(back.state()))));
  CHECK(back.model()->parameters()[0].device() == device());
}
TEST_CASE("save_async writes the state at its call, whatever comes after") {
  const Folder folder;
  auto trainer = trainer_on(device());
  const auto batches = texts();
  for (bool goes_on : {false, true, false}) {
    losses(trainer, batches);
    auto pending = trainer.save_async(folder.path / "async");
    // Nothing else is asked of the device in between, which might wait for the copies.
    const auto later = goes_on ? on_host(trainer.state()) : StateDict();
    if (goes_on) losses(trainer, batches);
    pending.wait();
    const auto written = load_tensors(folder.path / "async").tensors;
    CHECK(test::same_state(written, goes_on ? later : on_host(trainer.state())));
  }
}
TEST_CASE("weights of the device load on the CPU") {
  const Folder folder;
  auto there = trainer_on(device());
  losses(there, texts());
  auto here = trainer_on(at::kCPU);
  for (bool averaged : {false, true}) {
    CAPTURE(averaged);
    there.save_weights(folder.path / "weights", {.averaged = averaged});
    here.load_weights(folder.path / "weights");
    const auto loaded = parameters_of(here.model());
    const auto seen = [&](auto& model) { CHECK(test::same_bits(loaded, parameters_of(model))); };
    there.with_full_weights(seen, {.averaged = averaged});
  }
}

}  // namespace gpu
