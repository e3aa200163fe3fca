#include "laws.hpp"

namespace gpu {

namespace offload_parts {

template <class...>
struct Recipe;

/// The training with the policy has the bits of that without, and waits for the device only where
/// the update is on the host.
template <class Where, class... Policies>
std::vector<Report> changes_no_bit(Where offload, Policies... policies) {
  const std::string name = ikebana::detail::type_name<Recipe<Where, Policies...>>();
  CAPTURE(name);
  const Deterministic deterministic;
  const auto batches = texts(3);
  const Trace plain = trained_on(device(), net(0.2), batches, adamw, policies...);
  Net model = net(0.2);
  model->to(device());
  Trainer trainer{model, adamw, policies..., offload};
  torch::manual_seed(11);
  std::vector<Report> reports;
  for (const Texts& batch : batches) reports.push_back(trainer.step(batch));
  Trace trace;
  for (const Report& report : reports)
    trace.losses.push_back(report.mean().to(at::kCPU, at::kDouble));
  trainer.with_full_weights([&](auto& full) {
    for (const auto& p : full->parameters()) trace.parameters.push_back(p.detach().cpu().clone());
  });
  CHECK(same_bits(trace, plain));
  for (const std::string& error : take_errors()) FAIL_CHECK(error);
  return reports;
}
const Offload<CPU, Activations> activations{.min_bytes = 0};

}  // namespace offload_parts
using namespace offload_parts;

TEST_CASE("Offload<CPU, Activations> changes no bit, and what goes comes back") {
  for (const Report& report : changes_no_bit(activations)) {
    CHECK(report.offloaded->activations_out > 0);
    CHECK(report.offloaded->activations_back == report.offloaded->activations_out);
  }
  changes_no_bit(activations, Checkpoint<Full>{}, Precision<BF16>{});
  changes_no_bit(activations, Checkpoint<Selective>{}, Accumulate<3>{});
  changes_no_bit(activations, Checkpoint<Segments<2>>{}, Precision<BF16Weights>{});
}
TEST_CASE("Offload<CPU, Activations> waits for nothing") {
  const auto batches = texts(3);
  const Trace plain = trained_on(device(), net(), batches, adamw);
  CHECK(same_bits(trained_on(device(), net(), batches, adamw, activations), plain));
  CHECK(take_errors().empty());
}
TEST_CASE("Offload<CPU, OptimizerState> and Offload<CPU> change no bit on one kind of device") {
  changes_no_bit(Offload<CPU, OptimizerState>{});
  changes_no_bit(Offload<CPU>{});
  changes_no_bit(Offload<CPU>{}, Checkpoint<Full>{}, Accumulate<3>{},
                 ClipGradNorm{.max_norm = 0.5});
  changes_no_bit(Offload<CPU, OptimizerState>{}, Precision<BF16Weights>{}, EMA{.decay = 0.5});
  changes_no_bit(Offload<CPU, Activations, Parameters>{.min_bytes = 0}, Precision<FP16>{});
}
TEST_CASE("Offload<Disk> changes no bit") {
  const auto folder = std::filesystem::current_path();
  changes_no_bit(Offload<Disk>{.folder = folder, .window_bytes = 1000});
  changes_no_bit(Offload<Disk, Activations, OptimizerState>{.folder = folder, .min_bytes = 0});
}

}  // namespace gpu
