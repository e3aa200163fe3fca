// Tests what an error advises if a policy is there already: the peaks of this recipe, and of the
// recipes that it names, are what `estimate` says.
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/shard.hpp>
#include <variant>

#include "../../../examples/models/gpt.hpp"
#include "../../../examples/models/resnet.hpp"
#include "explained.hpp"
#include "guarantees/guarantees.hpp"
#include "test.hpp"

namespace guarantees::advice {

struct Pair {
  at::Tensor input, target;
};
/// One type for both models, so that each recipe is compiled once.
struct EitherImpl : torch::nn::Module {
  using units = Units<::Block, BasicBlock>;
  std::variant<GPT, ResNet> net;
  template <class Net>
  explicit EitherImpl(Net own) : net(own) {
    register_module("net", own);
  }
  template <class Run>
  Loss loss(Run& run, const Pair& batch) {
    if (auto* gpt = std::get_if<GPT>(&net))
      return (*gpt)->loss(run, Tokens{batch.input, batch.target});
    return std::get<ResNet>(net)->loss(run, Images{batch.input, batch.target});
  }
  std::int64_t count(const Pair& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Either);

template <class Batch>
Pair pair_of(const Batch& batch) {
  return {batch.input, batch.target};
}
const GPTConfig gpt{};
const ResNetConfig images{};
const std::filesystem::path folder = std::filesystem::current_path();

/// The memory of AdamW with N microbatches and `Policies`.
template <std::int64_t N, class... Policies>
struct Advice {
  template <class Optimizer, std::int64_t Parts, class... More>
  using With = Trainer<Either, Optimizer, Accumulate<Parts>, Policies..., More...>;
  static constexpr bool in_files = ((std::is_same_v<Policies, Offload<Disk>> ||
                                     std::is_same_v<Policies, Offload<Disk, OptimizerState>>) ||
                                    ...);

  template <class Maker>
  static std::int64_t real(const std::string& policy, const Maker& maker, const Pair& none,
                           Policies... values) {
    if (policy == "Accumulate<" + std::to_string(2 * N) + ">")
      return estimate<With<AdamW, 2 * N>>(maker, none, values...).peak;
    if constexpr (!in_files) {
      if (policy == "AdamW8bit") return estimate<With<AdamW8bit, N>>(maker, none, values...).peak;
      if (policy == "Checkpoint<Full>")
        return estimate<With<AdamW, N, Checkpoint<Full>>>(maker, none, values...).peak;
    }
    if constexpr (!in_files && N == 1)
      if (policy == "Shard<FSDP>, on 2 ranks")
        return estimate<With<AdamW, N, Shard<FSDP>>>(maker, none, EstimateOptions{.ranks = 2},
                                                     values...)
            .peak;
    FAIL("another policy");
    return 0;
  }
  /// Returns the policies that are named.
  template <class Maker>
  static std::string check(const Maker& maker, const Pair& batch, Policies... values) {
    const Pair none = shapes(batch);
    std::string named;
    using Recipe = With<AdamW, N>;
    for (const bool is_first : {true, false}) {
      std::istringstream lines = test::explained<Recipe>(maker(), batch, is_first, values...);
      std::string inputs;
      std::getline(lines, inputs);
      const double peak = test::check_peak(lines, estimate<Recipe>(maker, none, values...), 0.005);
      named.clear();
      test::check_savings(lines, peak, [&](const std::string& policy) {
        named += policy + ";";
        return real(policy, maker, none, values...);
      });
    }
    return named;
  }
  static std::string of_both(Policies... values) {
    using Recipe = With<AdamW, N>;
    CAPTURE(ikebana::detail::type_name<Recipe>());
    const Pair text = pair_of(random_batch(gpt, 16, 64)), few = pair_of(random_batch(gpt, 2, 32)),
               pictures = pair_of(random_batch(images, 4, 32));
    const auto make_gpt = [] { return Either(GPT(gpt)); };
    check(make_gpt, few, values...);
    check([] { return Either(ResNet(images)); }, pictures, values...);
    return check(make_gpt, text, values...);
  }
};
using test::contains;

TEST_CASE("advice: what lies in files saves nothing once more") {
  const std::string disk = Advice<1, Offload<Disk>>::of_both({.folder = folder});
  CHECK(contains(disk, "Accumulate<2>"));
  CHECK(!contains(disk, "AdamW8bit"));
  CHECK(!contains(disk, "Shard"));
  CHECK(contains(Advice<1, Offload<Disk, OptimizerState>>::of_both({.folder = folder}),
                 "Accumulate<2>"));
}
TEST_CASE("advice: what offloading keeps on the host is memory of a model on the CPU") {
  CHECK(contains(Advice<1, Offload<CPU, Activations>>::of_both({}), "AdamW8bit"));
}
TEST_CASE("advice: where a batch is cut, twice as many microbatches are named") {
  CHECK(contains(Advice<4>::of_both(), "Accumulate<8>"));
}

}  // namespace guarantees::advice
