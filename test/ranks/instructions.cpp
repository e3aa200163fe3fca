// Tests ranks on unlike processors. If one has no instructions for 16 bits, all compute in FP32.
#include "test.hpp"

#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks {

TEST_CASE("ranks: one without instructions for 16 bits makes all compute in FP32") {
  const auto all = batches(3, 4);
  auto train = [&](CPUProducts way, bool lacks_on_rank_1, auto optimizer) {
    std::vector<std::string> described(2);
    Result result = on_ranks<Kind::DDP, Counted>(
        2,
        [&](auto& trainer, int rank) {
          if (rank == 1 && lacks_on_rank_1) {
            trainer.template mechanism<Precision<BF16>>().use_instructions(false);
            trainer.template mechanism<decltype(optimizer)>().use_instructions(false);
          }
          std::vector<at::Tensor> losses;
          for (const auto& batch : all) losses.push_back(trainer.step(part(batch, rank, 2)).mean());
          described[static_cast<std::size_t>(rank)] = trainer.describe();
          return losses;
        },
        optimizer, Precision<BF16>{.cpu_products = way});
    CHECK(described[0] == described[1]);
    const bool wide =
        way == CPUProducts::FP32 || lacks_on_rank_1 || !bridge::has_native_products(at::kBFloat16);
    CHECK(contains(described[0], "products in Float32") == (wide && way != CPUProducts::Native));
    return result;
  };
  const Result forced = train(CPUProducts::FP32, false, SGD{.lr = 0.1});
  check_bits(train(CPUProducts::Fastest, true, SGD{.lr = 0.1}), forced);
  check_bits(train(CPUProducts::Native, true, SGD{.lr = 0.1}),
             train(CPUProducts::Native, false, SGD{.lr = 0.1}));
  Muon muon{.lr = 0.01, .cpu_products = CPUProducts::FP32};
  const Result of_muon = train(CPUProducts::FP32, false, muon);
  muon.cpu_products = CPUProducts::Fastest;
  check_bits(train(CPUProducts::Fastest, true, muon), of_muon);
}

}  // namespace test::ranks
