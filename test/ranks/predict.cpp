// predict on several ranks.
#include "test.hpp"

#include "lists.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

/// Each rank predicts batches of its own, of any size, with the bits of one rank; before and after
/// a step, one by one and of a loader.
template <Kind K>
void predicts() {
  const auto all = batches(4, 3);
  on_ranks<K>(3, [&](auto& trainer, std::int64_t rank) {
    const std::vector<Rows> mine{rows_of(all[static_cast<std::size_t>(rank)], 0, 1 + rank), all[3]};
    const at::Tensor first = trainer.predict(mine[0]);
    const std::vector<at::Tensor> both = trainer.predict(mine);
    CHECK(same_bits(both[0], first));
    CHECK(first.size(0) == 1 + rank);
    const at::Tensor by_hand = trainer.with_full_weights([&](auto& model) {
      const at::NoGradGuard no_grad;
      Plain run;
      return model->loss(run, mine[0]).outputs;
    });
    CHECK(same_bits(first, by_hand));
    trainer.step(mine[1]);
    CHECK_FALSE(same_bits(trainer.predict(mine[0]), first));
  });
}

}  // namespace

TEST_CASE("predict: each of several ranks predicts its own batches, with the bits of one rank") {
  predicts<Kind::DDP>();
  predicts<Kind::ZeRO2>();
  predicts<Kind::FSDP>();
}

TEST_CASE(
    "predict: where parameters are whole, one rank may predict alone; else that is an error") {
  const auto all = batches(1, 3);
  on_ranks<Kind::DDP>(2, [&](auto& trainer, std::int64_t rank) {
    if (rank == 1) CHECK(trainer.predict(all[0]).size(0) == 3);
    trainer.step(all[0]);
  });
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  std::vector<std::string> texts(2);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], Double<Kind::FSDP>{.wire = wire}};
    texts[r] =
        message_of([&] { r == 0 ? void(trainer.predict(all[0])) : void(trainer.step(all[0])); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, "predict"), text);
}

}  // namespace test::ranks
