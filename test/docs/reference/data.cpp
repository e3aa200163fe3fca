// Examples of the reference: datasets and the loader.
#include "../classes.hpp"

namespace test::reference_data {

using namespace policies;

// example: SampleRng
struct Noisy {  // a dataset of samples that are computed
  std::int64_t size() const { return 40; }
  Rows get(std::int64_t index, SampleRng& rng) const {
    at::Tensor noise = at::randn({4}, rng.generator());  // the same for this sample in each run
    bool flip = rng.uniform() < 0.5;
    return {flip ? -noise : noise, at::scalar_tensor(index % 3, at::kLong)};
  }
};
// end

TEST_CASE("reference: a loader of tensors in memory") {
  auto model = net();
  // example: TensorDataset, DataLoader, DataLoaderOptions
  TensorDataset dataset(Rows{at::randn({100, 4}), at::randint(3, {100}, at::kLong)});
  DataLoader loader{dataset, {.batch_size = 32, .shuffle = true, .num_workers = 2, .seed = 7}};

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  trainer.fit(loader, {.epochs = 2});
  // end
  CHECK((trainer.steps() == 8 && loader.size() == 4));

  // example: DataLoader::position, DataLoader::seek
  BatchPosition here = loader.position();  // {.epoch = 2, .batch = 0}
  loader.seek({.epoch = 0, .batch = 3});   // the next loop gives the last batch of epoch 0
  // end
  CHECK((here == BatchPosition{.epoch = 2, .batch = 0} && loader.position().batch == 3));
}

TEST_CASE("reference: a dataset of your own") {
  DataLoader loader{Noisy(), {.batch_size = 8}};
  int batches = 0;
  for (auto& batch : loader) batches += batch.input.size(0) == 8;
  CHECK(batches == 5);
}

// example: BadSample
struct Broken {
  std::int64_t size() const { return 10; }
  Rows get(std::int64_t index) const {
    if (index == 7) throw std::runtime_error("image7.png is no image");
    return {at::randn({4}), at::scalar_tensor(1, at::kLong)};
  }
};

std::string read_all() {
  DataLoader loader{Broken(), {.batch_size = 4}};
  try {
    for (auto& batch : loader) rows(batch);
  } catch (const BadSample& error) {
    return error.what();  // sample 7, its epoch, and the message of `get`
  }
  return {};
}
// end

TEST_CASE("reference: a sample that cannot be read") {
  CHECK(test::contains(read_all(), "image7.png"));
}

struct Text {
  at::Tensor input, target, mask;
};
struct Texts {
  std::int64_t size() const { return 6; }
  Text get(std::int64_t index) const {
    return {at::arange(index + 1), at::arange(index + 1), at::zeros({1})};
  }
};

TEST_CASE("reference: samples of different lengths") {
  // example: PadCollate, PadCollate::Field
  PadCollate<Text> collate{.fields = {{.field = &Text::input, .mask = &Text::mask},
                                      {.field = &Text::target, .padding_value = -100}},
                           .options = {.pad_to_multiple_of = 8}};
  DataLoader loader{Texts(), {.batch_size = 3}, collate};
  std::vector<at::Tensor> masks;
  for (auto& batch : loader) masks.push_back(batch.mask);  // (3, 8), Bool
  // end
  CHECK((masks.size() == 2 && masks[1].sizes() == at::IntArrayRef({3, 8})));
}

TEST_CASE("reference: a collate function of your own") {
  // example: DefaultCollate
  auto collate = [](const std::vector<Rows>& samples, const at::Tensor& indices) {
    Rows batch = DefaultCollate()(samples, indices);  // stacks each tensor
    batch.input = batch.input / batch.input.abs().max();
    return batch;
  };
  DataLoader loader{Noisy(), {.batch_size = 8}, collate};
  // end
  for (auto& batch : loader) CHECK(batch.input.abs().max().item<double>() <= 1);
}

}  // namespace test::reference_data
