#pragma once
// What the files of this folder share: some data, a net, and the comparison at the end of each.
#include "test.hpp"

#include <cstdlib>
#include <fstream>
#include <ikebana.hpp>

/// Rows of numbers and what is wanted of them.
struct Rows {
  at::Tensor input, target;
};

/// Batches of 8 rows of 4 numbers, and which of the first three is the largest of each row.
inline std::vector<Rows> some_batches(int batches) {
  torch::manual_seed(0);
  std::vector<Rows> all;
  for (int i = 0; i < batches; ++i) {
    at::Tensor input = at::randn({8, 4});
    all.push_back({input, input.narrow(1, 0, 3).argmax(1)});
  }
  return all;
}

/// A small classifier of such rows, made from the same random numbers each time.
inline torch::nn::Sequential net() {
  torch::manual_seed(1);
  torch::nn::Linear first(4, 16), second(16, 3);  // arguments would be made in no fixed order
  return torch::nn::Sequential(first, torch::nn::ReLU(), second);
}

/// The largest difference between two trainings' ends, relative to how far the second one went.
inline double apart(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                    const std::vector<at::Tensor>& start) {
  at::NoGradGuard no_grad;
  double difference = 0, way = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    difference = std::max(difference, (a.at(i) - b.at(i)).abs().max().item<double>());
    way = std::max(way, (b.at(i) - start[i]).abs().max().item<double>());
  }
  return difference / way;
}

/// Both trainings end in the same parameters, to rounding. Where IKEBANA_TRAINED names a folder,
/// the end and the start are written there: the Python of the same name must end alike.
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
