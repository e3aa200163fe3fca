// InspectGradients on several ranks sees whole gradients, or this rank's rows of them.
#include "test.hpp"

#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

template <Kind K>
void shows_gradients() {
  const auto all = batches(2, 4);
  std::vector<double> squared(2);
  std::vector<std::int64_t> elements(2);
  const Result result = on_ranks<K, Counted>(
      2,
      [&](auto& trainer, std::int64_t rank) {
        const auto r = static_cast<std::size_t>(rank);
        trainer.template get<InspectGradients>().hook = [&, r](const auto&, const at::Tensor& g) {
          squared[r] += g.to(at::kDouble).square().sum().template item<double>();
          elements[r] += g.numel();
        };
        std::vector<at::Tensor> norms;
        norms.push_back(trainer.step(part(all[0], rank, 2)).norm);
        return norms;
      },
      slow, InspectGradients{}, GradNorm{});
  const double norm = result.losses[0].item<double>();
  std::int64_t whole_elements = 0;
  for (const auto& p : make<Counted>()->named_parameters())
    if (!contains(p.key(), "unused")) whole_elements += p.value().numel();
  if (K == Kind::DDP) {
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(std::sqrt(squared[r]) == doctest::Approx(norm).epsilon(1e-6));
      CHECK(elements[r] == whole_elements);
    }
  } else {
    CHECK(std::sqrt(squared[0] + squared[1]) == doctest::Approx(norm).epsilon(1e-6));
    CHECK(elements[0] + elements[1] == whole_elements);
    CHECK(elements[0] < whole_elements);
  }
}

}  // namespace

TEST_CASE(
    "InspectGradients: ranks with whole parameters see all of a gradient, others their rows") {
  shows_gradients<Kind::DDP>();
  shows_gradients<Kind::ZeRO2>();
  shows_gradients<Kind::FSDP>();
}

}  // namespace test::ranks
