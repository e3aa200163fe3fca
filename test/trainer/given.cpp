// Tests what may be given to a trainer in several forms: loaders as temporaries that own or refer
// to the batches, objectives that cannot be copied, policies whose argument is deduced.
#include "test.hpp"

#include <span>

#include "classifier.hpp"

using namespace ikebana;

namespace test::given {

using verbs::Classifier;
using verbs::data;
using verbs::Net;
using verbs::net;

namespace {

/// Returns the losses of validation, from two epochs.
template <class Batches>
std::vector<double> validated(FitOptions<Batches> options) {
  Classifier trainer(net());
  auto train = data();
  options.epochs = 2;
  std::vector<double> losses;
  for (const Epoch& epoch : trainer.fit(train, options)) losses.push_back(epoch.validation->loss);
  return losses;
}

/// Returns the losses of three steps, whose dropout draws the same numbers in each call.
template <class Trainer>
std::vector<double> losses_of(Trainer& trainer) {
  torch::manual_seed(3);
  std::vector<double> losses;
  for (const auto& batch : data(3)) losses.push_back(trainer.step(batch).loss());
  return losses;
}

}  // namespace

TEST_CASE("fit: a temporary that owns a loader, or refers to one, is kept until validation") {
  const auto valid = data(2);
  using Loader = std::decay_t<decltype(valid)>;
  using Options = FitOptions<Loader::value_type>;
  const auto expected = validated(Options{.validate = valid});
  CHECK(expected.size() == 2);
  CHECK(validated(Options{.validate = std::make_unique<Loader>(valid)}) == expected);
  CHECK(validated(Options{.validate = std::make_shared<Loader>(valid)}) == expected);
  CHECK(validated(Options{.validate = &valid}) == expected);
  CHECK(validated(Options{.validate = std::span(valid)}) == expected);
}

TEST_CASE("fit: the position of a kept DataLoader is saved, as of one that is referred to") {
  auto made = [] {
    return std::make_unique<DataLoader<TensorDataset<at::Tensor>>>(
        TensorDataset(at::rand({6, 1})), DataLoaderOptions{.batch_size = 2, .shuffle = true});
  };
  auto owned = made();
  const BatchSource<at::Tensor> by_reference(owned), kept(made());
  StateDict first, second;
  for (auto [source, dict] : {std::pair(&by_reference, &first), std::pair(&kept, &second)}) {
    Archive archive(*dict, Archive::Mode::Save);
    source->state(archive);
  }
  CHECK(!first.empty());
  CHECK(first.size() == second.size());
}

TEST_CASE("trainer: an objective that cannot be copied trains as one that can") {
  Net model = net(), other = net();
  auto scale = std::make_unique<double>(0.5);
  auto objective = [](double factor, auto& run, auto& m, const auto& batch) -> Loss {
    at::Tensor out = run(m, batch.input);
    return {factor * out.square().sum(), out.size(0)};
  };
  Trainer moved{model, [scale = std::move(scale), objective](auto& run, auto& m, const auto& b) {
                  return objective(*scale, run, m, b);
                }};
  Trainer copied{
      other, [objective](auto& run, auto& m, const auto& b) { return objective(0.5, run, m, b); }};
  CHECK(losses_of(moved) == losses_of(copied));
  CHECK(same_bits(values_of(model), values_of(other)));
}

TEST_CASE("policies: Accumulate{8} and InBackward{AdamW{}} have the arguments of their values") {
  const Accumulate deduced{8};
  CHECK(std::is_same_v<decltype(deduced), const Accumulate<>>);
  CHECK(deduced.microbatches == 8);
  const InBackward wrapped{AdamW{.lr = 0.5}};
  CHECK(std::is_same_v<decltype(wrapped), const InBackward<AdamW>>);
  CHECK(wrapped.optimizer.lr == 0.5);
  Net model = net(), other = net();
  Trainer by_value{model, CrossEntropyLoss{}, Accumulate{3}};
  Trainer<Net, CrossEntropyLoss, Accumulate<3>> by_type{other};
  CHECK(losses_of(by_value) == losses_of(by_type));
  CHECK(same_bits(values_of(model), values_of(other)));
}

}  // namespace test::given
