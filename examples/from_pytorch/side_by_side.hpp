#pragma once
// The files of this folder share some data, a net, and the comparison at the end of each file.
#include "test.hpp"

#include <cstdlib>
#include <fstream>
#include <ikebana.hpp>

/// A batch of rows and their targets.
struct Rows {
  at::Tensor input, target;
};

/// Batches of 8 rows of 4 random values; the target is the index of the largest of the first three.
inline std::vector<Rows> some_batches(int batches) {
  torch::manual_seed(0);
  std::vector<Rows> all;
  for (int i = 0; i < batches; ++i) {
    at::Tensor input = at::randn({8, 4});
    all.push_back({input, input.narrow(1, 0, 3).argmax(1)});
  }
  return all;
}

/// Makes a small classifier of such rows, with the same initial weights at each call.
inline torch::nn::Sequential net() {
  torch::manual_seed(1);
  torch::nn::Linear first(4, 16),
      second(16, 3);  // arguments of a call are evaluated in no fixed order
  return torch::nn::Sequential(first, torch::nn::ReLU(), second);
}

/// Returns the largest difference of the parameters `a` and `b`, relative to the largest change
/// from `start` to `b`.
inline double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                    const std::vector<at::Tensor>& start) {
  at::NoGradGuard no_grad;
  double difference = 0, change = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    difference = std::max(difference, (a.at(i) - b.at(i)).abs().max().item<double>());
    change = std::max(change, (b.at(i) - start[i]).abs().max().item<double>());
  }
  return difference / change;
}

/// Checks that both trainings end in the same parameters, up to rounding. If IKEBANA_TRAINED names
/// a folder, writes the final and the initial parameters there, to be compared with the parameters
/// of the Python script of the same name.
inline void same_end(const std::string& name, const std::vector<at::Tensor>& by_ikebana,
                     const std::vector<at::Tensor>& by_hand, const std::vector<at::Tensor>& start) {
  REQUIRE(by_ikebana.size() == by_hand.size());
  CHECK(apart(by_ikebana, by_hand, start) < 1e-5);
  const char* folder = std::getenv("IKEBANA_TRAINED");
  if (!folder) return;
  auto flat = [](std::vector<at::Tensor> all) {
    for (at::Tensor& t : all) t = t.detach().flatten();
    return at::cat(all);
  };
  std::vector<char> bytes = torch::pickle_save(at::stack({flat(by_ikebana), flat(start)}));
  std::ofstream(folder + ("/" + name + ".pt"), std::ios::binary)
      .write(bytes.data(), std::streamsize(bytes.size()));
}
