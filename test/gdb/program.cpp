// Shows a debugger a trainer, a loss and reports, with a function to stop in.
#include <cstdio>
#include <ikebana.hpp>
#include <memory>

using namespace ikebana;

struct Net : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::full({1, 3}, 0.5));
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    const at::Tensor sum = at::linear(x, weight).square().sum();
    return {.sum = sum, .count = x.size(0), .terms = {{"size", sum * 2, 4, 0.5}}};
  }
};

/// The printers are tried here.
template <class T>
__attribute__((noinline)) void stop_here(T& trainer, const Report& report, const Loss& loss,
                                         const Report& empty) {
  std::printf("%s", trainer.steps() == 2 && loss.count.value() == 6 && empty.step == 0 ? "" : "?");
  std::printf("loss %.6g\n", report.loss());
}

int main() {
  auto model = std::make_shared<Net>();
  Trainer trainer{model, SGD{.lr = 0}, ClipGradNorm{}};
  trainer.step(at::ones({6, 3}));
  Report report = trainer.step(at::ones({6, 3}));
  const Loss loss = model->loss(plain, at::ones({6, 3}));
  stop_here(trainer, report, loss, Report{});
}
