// The mistakes of docs/tutorial.md that a program finds when it runs: makes each, and prints the
// error. The argument is a folder for saved states.
#include <filesystem>
#include <iostream>

#include "digits.hpp"
using namespace ikebana;

template <class F>
void report(const std::string& mistake, F&& make) {
  try {
    make();
    std::cout << mistake << ": no error\n";
  } catch (const std::exception& error) {
    std::cout << mistake << ":\n" << error.what() << "\n\n";
  }
}

template <class... Policies>
void fit(const Digits& digits, const FitOptions<Digits>& options, Policies... policies) {
  torch::manual_seed(0);
  DataLoader loader{TensorDataset{digits}, {.batch_size = 64, .shuffle = true}};
  Trainer trainer{Reader(), policies...};
  trainer.fit(loader, options);
}

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "mistakes";
  torch::manual_seed(0);
  const Digits digits = draw(128);
  Trainer trainer{Reader(), AdamW{.lr = 2e-3}};
  report("a picture without its channel",
         [&] { trainer.step(Digits{digits.input.squeeze(1), digits.target}); });
  report("targets as Float",
         [&] { trainer.step(Digits{digits.input, digits.target.to(at::kFloat)}); });
  report("a target that is no class",
         [&] { trainer.step(Digits{digits.input, at::full_like(digits.target, 10)}); });
  report("fewer targets than pictures",
         [&] { trainer.step(Digits{digits.input, digits.target.slice(0, 0, 60)}); });
  report("a batch that is not finite",
         [&] { trainer.step(Digits{digits.input / 0, digits.target}); });

  FitOptions<Digits> options{.progress = false, .save_to = folder};
  fit(digits, options, AdamW{.lr = 2e-3});
  report("a folder with states, without resume", [&] { fit(digits, options, AdamW{.lr = 2e-3}); });
  options.resume = true;
  report("another optimizer than that of the state", [&] { fit(digits, options, SGD{.lr = 0.1}); });
  report("another data set than that of the state",
         [&] { fit(draw(64), options, AdamW{.lr = 2e-3}); });
  return 0;
}
