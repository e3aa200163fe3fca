// Stops from another thread: a window's button, a signal, a time limit. Training ends after the
// current step, and can continue later from there.
#include <atomic>
#include <functional>
#include <latch>
#include <thread>

#include "side_by_side.hpp"

namespace stop_from_outside {

using namespace ikebana;
namespace nn = torch::nn;

nn::Sequential by_hand(const std::vector<Rows>& loader, const std::atomic<bool>& stop,
                       const std::function<void(std::size_t)>& on_step) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  for (std::size_t step = 0; step < loader.size() && !stop; ++step) {
    optimizer.zero_grad();
    at::Tensor output = model->forward(loader[step].input);
    nn::functional::cross_entropy(output, loader[step].target).backward();
    optimizer.step();
    on_step(step);
  }
  return model;
}

TEST_CASE("from PyTorch: a stop from another thread") {
  std::vector<Rows> loader = some_batches(40);
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  std::latch tenth_step(1),
      requested(1);  // for the test: step 10 lasts until the stop is requested
  auto on_step = [&](const Report& report) {
    if (report.step == 9) tenth_step.count_down(), requested.wait();
  };

  std::jthread training([&](std::stop_token token) {
    auto stop = [token] { return token.stop_requested(); };
    trainer.fit(loader, {.epochs = 1000, .on_step = on_step, .stop = stop});
  });
  tenth_step.wait();
  training.request_stop();
  requested.count_down();
  training.join();

  std::atomic<bool> stop = false;
  nn::Sequential hand_model = by_hand(loader, stop, [&](std::size_t step) { stop = step == 9; });
  CHECK(trainer.steps() == 10);
  same_end("stop_from_outside", model->parameters(), hand_model->parameters(), net()->parameters());
}

TEST_CASE("from PyTorch: a training that was stopped continues from there") {
  std::vector<Rows> loader = some_batches(40), rest(loader.begin() + 10, loader.end());
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  auto at_ten = [&] { return trainer.steps() == 10; };
  History cut_short = trainer.fit(loader, {.validate = loader, .stop = at_ten});
  CHECK(cut_short.back().steps == 10);
  CHECK(cut_short.back().validation.has_value());
  trainer.fit(rest);
  nn::Sequential hand_model = by_hand(loader, false, [](std::size_t) {});
  CHECK(apart(model->parameters(), hand_model->parameters(), net()->parameters()) < 1e-5);
}

}  // namespace stop_from_outside
