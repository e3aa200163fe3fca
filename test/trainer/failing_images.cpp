// Each allocation of a step on images fails in turn: batch norm's statistics, dropout's random
// numbers and a parameter that is updated in parts are as before. failing_allocations.cpp has the
// operator new that fails.
#include "failing.hpp"

#include <ikebana.hpp>
#include <ikebana/modules/bn_relu.hpp>

namespace test::failing_images {

using namespace ikebana;
namespace nn = torch::nn;

/// Has no convolution: oneDNN goes on by other means if an allocation of its own fails.
struct BlockImpl : nn::Module {
  at::Tensor scale = register_parameter("scale", at::linspace(0.5, 2, 100).view({1, 4, 5, 5}));
  modules::BNReLU2d norm{4};
  BlockImpl() { register_module("norm", norm); }
  at::Tensor forward(const at::Tensor& x) {
    return at::dropout(norm(x * scale, x), 0.3, is_training());
  }
};
TORCH_MODULE(Block);
/// The weight of the head has two parts and a rest.
struct NetImpl : nn::Module {
  using units = Units<Block>;
  Block block;
  nn::Linear head{4, 34000};
  NetImpl() { register_module("block", block), register_module("head", head); }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& x) {
    const at::Tensor y = head(run(block, x).mean({2, 3}));
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Net);

/// Makes the step that follows `steps` others.
template <class... Policies>
void leaves_a_step(int threads, std::int64_t steps, const Policies&... policies) {
  const int before_this = at::get_num_threads();
  at::set_num_threads(threads);
  torch::manual_seed(1);
  const at::Tensor batch = at::randn({3, 4, 5, 5});
  const auto fresh = [&] {
    torch::manual_seed(7);
    return Trainer{Net(), policies...};
  };
  auto trainer = fresh();
  while (trainer.steps() < steps) trainer.step(batch);
  const StateDict before = trainer.state();
  trainer.step(batch), trainer.step(batch);  // operators are looked up once
  trainer.restore(before);
  trainer.step(batch);
  const StateDict after = trainer.state();
  trainer.restore(before);
  FailingAllocator failing;
  int undone = 0;
  const int allocations = fail_each([&] { trainer.step(batch); },
                                    [&](const std::exception_ptr& error) {
                                      undone += error != nullptr;
                                      CHECK(same_state(trainer.state(), error ? before : after));
                                      if (error == nullptr) trainer.restore(before);
                                    });
  CHECK(undone > 75);
  // If other threads cannot be given work for want of memory, the thread that asks does all.
  if (threads == 1) CHECK(allocations == undone);
  else CHECK((is_thorough() ? allocations > undone : allocations >= undone));
  at::set_num_threads(before_this);
}

TEST_CASE("allocations: a step on images changes nothing, whichever fails") {
  on_own_thread([] {
    leaves_a_step(1, 0, NAdam{}, Layout<ChannelsLast>{});
    leaves_a_step(2, 1, RMSprop{.momentum = 0.9}, Checkpoint<Full>{}, SWA{});
  });
}

}  // namespace test::failing_images
