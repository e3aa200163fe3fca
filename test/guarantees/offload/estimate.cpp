// Tests what `estimate` says of recipes that offload.
#include "test.hpp"

#include <ikebana.hpp>
#include <ikebana/estimate.hpp>

#include "../../../examples/models/gpt.hpp"
#include "../../../examples/models/resnet.hpp"

namespace guarantees::offload_estimate {

using namespace ikebana;

const GPTConfig config{.layers = 4, .width = 64, .heads = 4, .context = 32};
const std::filesystem::path folder = std::filesystem::current_path();

template <class... Policies>
void agrees(Policies... policies) {
  const std::string name = ikebana::detail::type_name<Trainer<GPT, AdamW, Policies...>>();
  CAPTURE(name);
  const Tokens batch = random_batch(config, 8, config.context);
  using Recipe = Trainer<GPT, AdamW, Policies...>;
  const auto make = [] { return GPT(config); };
  const Estimate of_shapes = estimate<Recipe>(make, shapes(batch), policies...),
                 measured = estimate<Recipe>(make, batch, policies...);
  const auto near = [](std::int64_t a, std::int64_t b) {
    return std::abs(static_cast<double>(a - b)) <= 0.05 * static_cast<double>(b);
  };
  CHECK_MESSAGE(near(of_shapes.peak, measured.peak), of_shapes << measured);
  CHECK(of_shapes.offloaded == measured.offloaded);
  CHECK(of_shapes.offloaded > 0);
  CHECK(of_shapes.is_offloaded_to_disk == measured.is_offloaded_to_disk);
  CHECK(of_shapes.optimizer_state == measured.optimizer_state);
  CHECK(test::contains(of_shapes.table(), measured.is_offloaded_to_disk ? "of these, on a disk"
                                                                        : "of these, on the host"));
}

TEST_CASE("offload: an estimate knows what lies on the host, and measures the same") {
  agrees(Offload<CPU, Activations>{});
  agrees(Offload<CPU, OptimizerState>{});
  agrees(Offload<CPU>{}, Checkpoint<Full>{});
  agrees(Offload<CPU, Activations, Parameters>{}, Precision<BF16>{}, Accumulate<2>{});
}
TEST_CASE("offload: what lies in files is no memory") {
  agrees(Offload<Disk, OptimizerState>{.folder = folder});
  agrees(Offload<Disk>{.folder = folder});
  agrees(Offload<Disk, Activations, Parameters>{.folder = folder, .min_bytes = 0});
  const Tokens batch = shapes(random_batch(config, 8, config.context));
  const auto make = [] { return GPT(config); };
  const Estimate off = estimate<Trainer<GPT, AdamW>>(make, batch),
                 state = estimate<Trainer<GPT, AdamW, Offload<Disk, OptimizerState>>>(
                     make, batch, Offload<Disk, OptimizerState>{.folder = folder}),
                 all = estimate<Trainer<GPT, AdamW, Offload<Disk>>>(
                     make, batch, Offload<Disk>{.folder = folder});
  CHECK(state.offloaded == off.parameters + off.gradients + off.optimizer_state);
  CHECK(state.between_steps < off.between_steps - off.optimizer_state / 100 * 99);
  CHECK(all.between_steps < off.between_steps / 8);
  CHECK(all.peak + off.optimizer_state < off.peak);
  CHECK(all.activations == off.activations);  // and no memory that visiting units leave
}
/// Its units have parameters of unlike sizes, whose memory is used again if it fits.
TEST_CASE("offload: an estimate knows what units of unlike sizes keep while they visit") {
  const ResNetConfig unlike{.blocks = 1, .stages = 4, .width = 16};
  const Images batch = random_batch(unlike, 4, 32);
  const auto make = [&] { return ResNet(unlike); };
  using Recipe = Trainer<ResNet, AdamW, Offload<Disk>>;
  const Offload<Disk> policy{.folder = folder};
  const Estimate of_shapes = estimate<Recipe>(make, shapes(batch), policy),
                 measured = estimate<Recipe>(make, batch, policy);
  CHECK(static_cast<double>(of_shapes.peak) ==
        doctest::Approx(static_cast<double>(measured.peak)).epsilon(0.005));
  CHECK(measured.other < measured.parameters / 2);
}
TEST_CASE("offload: an estimate for a disk needs none, and allocates nothing") {
  const GPTConfig large{.layers = 40, .width = 8192, .heads = 64, .context = 128};
  const Tokens batch = shapes(random_batch(large, 1, large.context));
  const Estimate far = estimate<Trainer<GPT, AdamW, Offload<Disk>>>(
      [&] { return GPT(large); }, batch, Offload<Disk>{.folder = "/no/such/folder"});
  CHECK(far.offloaded > GiB(400));
  CHECK(far.peak < far.offloaded / 8);
}

}  // namespace guarantees::offload_estimate
