// Tests that what cannot train on several ranks is refused when the trainer is made, and that the
// model stays whole.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "nets.hpp"
#include "own_momentum.hpp"

using namespace ikebana;

namespace test::ranks {

using Adagrads = LibTorchOptimizer<torch::optim::Adagrad>;

TEST_CASE("ranks: optimizers that need whole parameters, or no other ranks, are refused") {
  auto wire = std::make_shared<Wire>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  auto refused = [&](auto optimizer, const char* words) {
    Counted model = make<Counted>();
    const std::string text =
        message_of([&] { Trainer trainer{model, optimizer, Double<Kind::FSDP>{.wire = wire}}; });
    CHECK_MESSAGE(contains(text, words), text);
  };
  refused(OwnMomentum{}, "OwnMomentum: `embed.weight` of shape [48, 5] is cut into slices");
  refused(OwnMomentum{}, "by_elements = true");
  refused(Adagrads{}, "LibTorchOptimizer<torch::optim::Adagrad>: `embed.weight`");
  const Combined<OwnMomentum, AdamW> both{.match = named("embed.*")};
  refused(both, "OwnMomentum: `embed.weight`");
  refused(InBackward<AdamW>{}, "InBackward<AdamW>: it updates parameters before");
}

TEST_CASE("ranks: a trainer that is refused leaves the model whole") {
  auto wire = std::make_shared<Wire>(c10::make_intrusive<c10d::HashStore>(), 0, 2);
  Counted model = make<Counted>();
  const Tensors before = copies(model);
  CHECK_THROWS_AS((Trainer{model, OwnMomentum{}, Double<Kind::FSDP>{.wire = wire}}), BadValue);
  CHECK(same_bits(copies(model), before));
}

}  // namespace test::ranks
