// Tensors that are on several devices: which are moved, which may stay, and what is an error.
#include <unistd.h>

#include <filesystem>

#include "guarantees.hpp"

namespace gpu {

namespace mixed_parts {

/// Returns the model as it is after a training of which each batch was `placed`.
template <class Place, class... Policies>
Trace trained_from(const Place& place, const Policies&... policies) {
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw, policies...};
  torch::manual_seed(11);
  Trace trace;
  for (const Texts& batch : texts())
    trace.losses.push_back(trainer.step(place(batch)).mean().to(at::kCPU, at::kDouble));
  trace.parameters = parameters_of(model);
  return trace;
}
Texts as_it_is(const Texts& batch) { return batch; }

}  // namespace mixed_parts
using namespace mixed_parts;

TEST_CASE("mixed devices: inputs on one device and targets on another train the same") {
  const Deterministic deterministic;
  const Trace expected = trained_from(as_it_is);
  const auto there = [](const Texts& b) { return Texts{b.input.to(device()), b.target}; };
  CHECK(same_bits(trained_from(there), expected));
  if (devices() < 2) return;
  const auto apart = [](const Texts& b) {
    return Texts{b.input.to(device(0)), b.target.to(device(1))};
  };
  CHECK(same_bits(trained_from(apart, Accumulate<1>{}), expected));
}
TEST_CASE("mixed devices: a loss that is computed on the host trains the same") {
  const Deterministic deterministic;
  const Changed on_host{[](Loss& loss) { loss.sum = loss.sum.cpu(); }};
  const ClipGradNorm clip{.max_norm = 0.1};
  CHECK(same_bits(trained_from(as_it_is, on_host, clip), trained_from(as_it_is, Changed{}, clip)));
}
TEST_CASE("mixed devices: parameters on two devices are an error, and On moves them to one") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU is one device");
  Net model = net();
  model->blocks[0]->to(device());
  const auto message = test::message_of<BadModel>([&] { Trainer trainer{model, adamw}; });
  CHECK(test::contains(message, "`embed.weight` is on cpu and `block0.norm.weight` on " +
                                    device().str() + ". Move the model to one device"));
  Trainer trainer{model, adamw, On{device()}};
  for (const auto& p : model->parameters()) CHECK(p.device() == device());
  trainer.step(texts()[0]);
}
TEST_CASE("mixed devices: a buffer stays where it is, and is saved and put back there") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU is one device");
  Net model = net();
  model->to(device());
  at::Tensor seen = model->register_buffer("seen", at::zeros({}, at::kLong));
  bool fails = false;
  Trainer trainer{model, adamw, Changed{[&](Loss&) {
                    seen.add_(1);
                    if (fails) throw BadBatch("as it was told");
                  }}};
  const auto batches = texts();
  trainer.step(batches[0]);
  fails = true;
  test::message_of<BadBatch>([&] { trainer.step(batches[0]); });
  CHECK(seen.is_cpu());
  CHECK(seen.item<std::int64_t>() == 1);
  CHECK(trainer.state().at("seen").item<std::int64_t>() == 1);
}
TEST_CASE("mixed devices: a model that is moved after its trainer was made is an error") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU is one device");
  Net model = net();
  Trainer trainer{model, adamw};
  const auto batches = texts();
  trainer.step(batches[0]);
  model->to(device());
  const auto before = parameters_of(model);
  for (const auto& message : {test::message_of<StepFailed>([&] { trainer.step(batches[0]); }),
                              test::message_of<StepFailed>([&] { trainer.evaluate(batches); })})
    CHECK_MESSAGE(test::contains(message, "when its trainer was made"), message);
  CHECK(test::same_bits(parameters_of(model), before));
  model->to(at::kCPU);
  trainer.step(batches[0]);
  CHECK_FALSE(test::same_bits(parameters_of(model), before));
}
TEST_CASE("mixed devices: predictions are on the model's device, and metrics see batches there") {
  struct Where {
    std::vector<c10::Device>* seen;
    std::string name = "where";
    void update(const Texts& batch, const at::Tensor& outputs) {
      seen->insert(seen->end(), {batch.input.device(), batch.target.device(), outputs.device()});
    }
    double value() const { return 0; }
  };
  Net model = net();
  Trainer trainer{model, adamw, On{device()}};
  const auto batches = texts(1);
  CHECK(trainer.predict(batches[0].input).device() == device());
  CHECK(trainer.predict(batches[0]).device() == device());
  std::vector<c10::Device> seen;
  trainer.evaluate(batches, Where{&seen});
  CHECK(seen == std::vector<c10::Device>(3, device()));
}
TEST_CASE("mixed devices: files have tensors of the host, for a model on any device") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("mixed." + std::to_string(::getpid()))).string();
  Net model = net(), other(0.0, false);
  model->to(device(0)), other->to(device(devices() - 1));
  save_weights(model, path);
  for (const auto& [name, t] : load_tensors(path).tensors) CHECK(t.is_cpu());
  load_weights(other, path);
  CHECK(other->parameters()[0].device() == device(devices() - 1));
  CHECK(test::same_bits(parameters_of(other), parameters_of(model)));
  std::filesystem::remove(path);
}

}  // namespace gpu
