// Tests what an error says of the memory of one of several ranks.
#include "../explained.hpp"
#include <barrier>
#include <thread>

#include "../../examples/models/gpt.hpp"
#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::explained_on_ranks {

const GPTConfig config{};
auto maker = [] { return GPT(config); };

template <class How>
struct With {
  template <class... Policies>
  using Sharded = Trainer<GPT, Policies..., Shard<How>>;

  static std::int64_t peak(const std::string& policy, const Tokens& none, EstimateOptions options) {
    if (policy == "Checkpoint<Full>")
      return estimate<Sharded<AdamW, Checkpoint<Full>>>(maker, none, options).peak;
    if (policy == "Accumulate<2>")
      return estimate<Sharded<AdamW, Accumulate<2>>>(maker, none, options).peak;
    if (policy == "AdamW8bit") return estimate<Sharded<AdamW8bit>>(maker, none, options).peak;
    if (policy == "Shard<FSDP>, on 2 ranks")
      return estimate<Trainer<GPT, AdamW, Shard<FSDP>>>(maker, none, options).peak;
    FAIL("another policy");
    return 0;
  }
  /// Checks a batch of `rows` rows, in which activations take most of the memory, or parameters.
  static void check(std::int64_t rows, std::int64_t length, bool is_first) {
    std::vector<std::istringstream> of_ranks(2);
    const Tokens batch = random_batch(config, rows, length);
    std::barrier together(2);
    on_groups(2, [&](const ProcessGroup& group) {
      torch::manual_seed(1);
      auto in_turn = [&](const auto& f) {
        for (const std::int64_t r : {0, 1, 2}) {
          together.arrive_and_wait();
          if (r == group.rank()) f();
        }
      };
      of_ranks[static_cast<std::size_t>(group.rank())].str(test::explanation<Sharded<AdamW>>(
          maker(), batch, is_first, in_turn, Shard<How>{.process_group = group}));
    });
    for (const std::int64_t r : {0, 1}) {
      CAPTURE(r);
      const Tokens none = shapes(batch);
      const EstimateOptions options{.ranks = 2, .rank = r};
      std::istringstream& lines = of_ranks[static_cast<std::size_t>(r)];
      REQUIRE(lines.str() != "none");
      std::string inputs;
      std::getline(lines, inputs);
      CHECK(inputs == std::to_string(4 * rows * length * 128 * 4) + " inputs");
      const double peak = check_peak(lines, estimate<Sharded<AdamW>>(maker, none, options), 0.005);
      const auto named = check_savings(lines, peak, [&](const std::string& policy) {
        return With::peak(policy, none, options);
      });
      CHECK(named >= 1);
    }
  }
};

TEST_CASE_TEMPLATE("ranks: an error has the memory of a step of its rank, and what would save it",
                   How, DDP, ZeRO1, ZeRO2, FSDP, HSDP<1>) {
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    With<How>::check(16, 64, is_first);
    With<How>::check(2, 32, is_first);
  }
}

TEST_CASE_TEMPLATE("ranks: one that runs out of memory says why, and all train on", How, DDP, ZeRO2,
                   FSDP, HSDP<1>) {
  const auto all = batches(3, 8);
  std::vector<std::string> texts(2);
  auto trained_all = [&](bool fails) {
    std::vector<Counted> models = {make<Counted>(), make<Counted>()};
    std::vector<Trace> traces(2);
    on_groups(2, [&](const ProcessGroup& group) {
      const auto r = static_cast<std::size_t>(group.rank());
      std::vector<Rows> mine;
      for (const Rows& batch : all) mine.push_back(part(batch, group.rank(), 2));
      Trainer trainer{models[r], AdamW{.lr = 1e-2}, Shard<How>{.process_group = group}};
      if (fails) {
        // Rank 0 does nothing while a copy of the process is made for rank 1.
        models[r]->during_forward = [] {
          std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        };
        if (r == 1)
          models[r]->during_forward = [] { at::empty({std::int64_t(1) << 50}, at::kByte); };
        if (r == 1) texts[r] = message_of<OutOfMemory>([&] { trainer.step(mine[0]); });
        else texts[r] = message_of<RankFailed>([&] { trainer.step(mine[0]); });
        models[r]->during_forward = {};
      }
      traces[r] = trained(trainer, mine);
    });
    return traces;
  };
  const auto expected = trained_all(false), got = trained_all(true);
  for (const std::size_t r : {0U, 1U}) compare(got[r], expected[r], {});
  CHECK(contains(texts[0], "rank 1: "));
  for (const char* part :
       {"\nA step in 1 microbatch: memory of training, estimated from shapes, ", "rank 1 of 2",
        "\n  optimizer state ", "\n  outer ", " 1.0 PiB  in forward\n"})
    CHECK(contains(texts[1], part));
}

}  // namespace test::ranks::explained_on_ranks
