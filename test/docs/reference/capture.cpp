// Examples of the reference: steps that are recorded and replayed.
#include "../classes.hpp"

#include <ikebana/capture.hpp>

namespace test::reference_capture {

using namespace policies;

TEST_CASE("reference: Capture<WholeStep>") {
  auto model = net();
  auto loader = classes(8);
  // example: Capture<WholeStep>, Trainer::tape
  // A program includes ikebana/capture.hpp.
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Capture<WholeStep>{.tapes = 4}};
  for (const auto& batch : loader) trainer.step(batch);
  std::string tape = trainer.tape();  // the operators that a replay calls
  // end
  CHECK(test::contains(tape, "backward"));
}

TEST_CASE("reference: Capture<EachUnit>") {
  auto model = net();
  auto loader = classes(8);
  // example: Capture<EachUnit>
  // The loss may decide by numbers; the model, which declares no units, is one.
  auto objective = [](auto& run, nn::Sequential& net, const Rows& batch) {
    at::Tensor logits = run(net, batch.input);
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return Loss{.sum = sum.item<double>() > 100 ? sum / 2 : sum, .count = batch.target.numel()};
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-3}, Capture<EachUnit>{.tapes = 4}};
  for (const auto& batch : loader) trainer.step(batch);
  // end
  CHECK(trainer.mechanism<Capture<EachUnit>>().replays() > 0);
  CHECK(test::contains(trainer.tape(), "unit"));
}

TEST_CASE("reference: OnRefusal") {
  auto model = net();
  auto loader = classes(4);
  // example: OnRefusal
  auto objective = [](auto& run, nn::Sequential& net, const Rows& batch) {
    at::Tensor logits = run(net, batch.input);
    double most = logits.max().item<double>();  // a replay would go on with this number
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return Loss{.sum = sum / (most > 8 ? most : 1), .count = batch.target.numel()};
  };
  Trainer trainer{model, objective, Capture<WholeStep>{.on_refusal = OnRefusal::Eager}};
  for (const auto& batch : loader) trainer.step(batch);  // warns once, and trains
  // end
  CHECK(trainer.mechanism<Capture<WholeStep>>().recordings() == 0);

  Trainer strict{net(), objective, Capture<WholeStep>{}};
  strict.step(loader[0]), strict.step(loader[1]);
  CHECK_THROWS_AS(strict.step(loader[2]), BadModel);
}

}  // namespace test::reference_capture
