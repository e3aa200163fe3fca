#pragma once
// Defines a small net and batches for the examples of policies.
#include "docs/classes.hpp"

namespace test::reference {

using namespace ikebana;
using test::policies::Rows;
namespace nn = torch::nn;

/// The surroundings of the examples: a model, a batch, and a range of batches.
struct Small {
  nn::Sequential model = test::policies::net();
  std::vector<Rows> loader = test::policies::classes();
  std::vector<Rows> held_out = test::policies::classes(2);
  Rows batch = loader[0];

  /// Returns the largest change of an element of the parameters since the model was made.
  double change() const {
    double largest = 0;
    const auto now = model->parameters(), then = test::policies::net()->parameters();
    for (std::size_t i = 0; i < now.size(); ++i)
      largest = std::max(largest, (now[i] - then[i]).abs().max().item<double>());
    return largest;
  }
};

/// Takes what is printed, until `text` is called.
struct Printed {
  std::ostringstream out;
  std::streambuf* former = std::cout.rdbuf(out.rdbuf());
  ~Printed() { std::cout.rdbuf(former); }
  std::string text() {
    std::cout.rdbuf(former);
    return out.str();
  }
};

}  // namespace test::reference
