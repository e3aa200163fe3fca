#pragma once
// Defines a small net and batches for the code that the pages show.
#include "test.hpp"

#include <ikebana.hpp>
#include <iostream>
#include <sstream>

namespace test::policies {

using namespace ikebana;
namespace nn = torch::nn;

struct Rows {
  at::Tensor input, target;
};
inline nn::Sequential net() {
  torch::manual_seed(0);
  return nn::Sequential(nn::Linear(4, 16), nn::GELU(), nn::Linear(16, 3));
}
inline std::vector<Rows> classes(int batches = 4) {
  std::vector<Rows> all;
  for (int i = 0; i < batches; ++i)
    all.push_back({at::randn({12, 4}), at::randint(3, {12}, at::kLong)});
  return all;
}

}  // namespace test::policies
