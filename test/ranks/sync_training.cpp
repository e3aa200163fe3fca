// Tests that ranks that train with modules::SyncBatchNorm train as one rank on the joined batch.
#include "test.hpp"

#include "sync_trained.hpp"

namespace test::ranks::sync_training {

TEST_CASE(
    "SyncBatchNorm: ranks train as one rank on the joined batch, also where one has no rows") {
  for (std::int64_t ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const Trained expected = on_one_rank(ranks);
    auto check = [&]<class How>(std::type_identity<How>) {
      const Trained plain = on_all<How>(ranks, at::kDouble),
                    again = on_all<How>(ranks, at::kDouble, Checkpoint<Full>{});
      check_close(plain, expected, 1e-9);
      CHECK(same_bits(again.losses, plain.losses));
      CHECK(same_bits(again.weights, plain.weights));
      CHECK(same_bits(again.buffers, plain.buffers));
    };
    check(std::type_identity<DDP>());
    check(std::type_identity<FSDP>());
  }
}
TEST_CASE("SyncBatchNorm: a recompute of a part of a unit, or of several, makes the same bits") {
  const Trained expected = on_all<FSDP>(2, at::kFloat);
  check_close(expected, on_one_rank(2), 1e-4);
  for (const Trained& one : {on_all<FSDP>(2, at::kFloat, Checkpoint<Selective>{}),
                             on_all<FSDP>(2, at::kFloat, Checkpoint<Segments<1>>{})}) {
    CHECK(same_bits(one.losses, expected.losses));
    CHECK(same_bits(one.weights, expected.weights));
    CHECK(same_bits(one.buffers, expected.buffers));
  }
}
TEST_CASE("SyncBatchNorm: under autocast its statistics are in FP32") {
  const Trained got = on_all<DDP>(2, at::kFloat, Precision<BF16>{});
  for (const at::Tensor& buffer : got.buffers)
    CHECK((buffer.scalar_type() == at::kFloat || buffer.dim() == 0));
  check_close(got, on_one_rank(2), 0.05);
}

}  // namespace test::ranks::sync_training
