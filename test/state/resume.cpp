// Saving, loading and going on equals not stopping, to the bit.
#include <ikebana.hpp>

#include "state/folder.hpp"
#include "test.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::resume {

auto made() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 3));
  return Trainer{model, CrossEntropyLoss{}, EMA{}, Precision<FP16>{}};
}
std::pair<at::Tensor, at::Tensor> batch() {
  return {at::linspace(-1, 1, 256).view({32, 8}), at::arange(32) % 3};
}

TEST_CASE("a trainer that was saved and loaded goes on as if nothing had happened") {
  const Folder folder;
  auto whole = made(), resumed = made();
  whole.step(batch());
  whole.save(folder / "state.safetensors");
  whole.step(batch());
  const StateDict wanted = whole.state();
  resumed.load(folder / "state.safetensors");
  resumed.step(batch());
  const StateDict found = resumed.state();
  REQUIRE(found.size() == wanted.size());
  for (const auto& [name, tensor] : wanted) CHECK_MESSAGE(same_bits(tensor, found.at(name)), name);
}

}  // namespace test::resume
