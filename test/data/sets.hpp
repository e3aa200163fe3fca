#pragma once
// Defines datasets of every kind that a loader accepts, with the same samples.
#include "test.hpp"

#include <ikebana/data/loader.hpp>
#include <ikebana/data/tensor_dataset.hpp>

namespace test::data {

struct Pair {
  at::Tensor input, target;
};
struct All {
  at::Tensor input = at::sin(at::arange(46.f)).view({23, 2}), target = at::arange(23) * 3;
  std::int64_t count = 23;

  explicit All(std::int64_t n = 23) : count(n) {}
  std::int64_t size() const { return count; }
};

/// Not augmented: a batch consists of rows of `All`.
struct Structs : All {
  using All::All;
  Pair get(std::int64_t i) const { return {input[i], target[i]}; }
};
struct Numbers : All {
  using All::All;
  std::pair<at::Tensor, int> get(std::int64_t i) const { return {input[i], int(i) * 3}; }
};
struct Gathered : All {
  using All::All;
  Pair get_batch(const at::Tensor& i) const {
    return {input.index_select(0, i), target.index_select(0, i)};
  }
};
struct Torch : torch::data::datasets::Dataset<Torch> {
  All all;
  explicit Torch(std::int64_t n = 23) : all(n) {}
  torch::data::Example<> get(std::size_t i) override {
    return {all.input[std::int64_t(i)], all.target[std::int64_t(i)]};
  }
  std::optional<std::size_t> size() const override { return all.count; }
};
inline auto mapped(std::int64_t n) { return Torch(n).map(torch::data::transforms::Stack<>()); }
inline auto tensors(std::int64_t n) {
  All all;
  return ikebana::TensorDataset(Pair{all.input.narrow(0, 0, n), all.target.narrow(0, 0, n)});
}

/// Augmented: noise of SampleRng's generator, and a flip by its uniform numbers.
struct Noisy : All {
  using All::All;
  Pair get(std::int64_t i, ikebana::SampleRng& rng) const {
    at::Tensor row = rng.uniform() < 0.5 ? input[i].flip(0) : input[i];
    if (rng.randint(2) == 0) row = row + at::randn({2}, rng.generator());
    return {row, target[i]};
  }
};
struct NoisyBatch : All {
  using All::All;
  Pair get_batch(const at::Tensor& i, ikebana::SampleRng& rng) const {
    at::Tensor noise = at::randn({i.numel(), 2}, rng.generator());
    return {input.index_select(0, i) + noise, target.index_select(0, i)};
  }
};

using Batches = std::vector<std::vector<at::Tensor>>;

template <class Batch>
std::vector<at::Tensor> flat(const Batch& batch) {
  std::vector<at::Tensor> tensors;
  ikebana::detail::for_each_tensor(batch, [&](const at::Tensor& t) { tensors.push_back(t); });
  return tensors;
}

/// Returns the next `count` batches, across ends of epochs.
template <class Loader>
Batches next(Loader& loader, std::size_t count) {
  Batches batches;
  while (batches.size() < count)
    for (auto& batch : loader) {
      batches.push_back(flat(batch));
      if (batches.size() == count) break;
    }
  return batches;
}
template <class Loader>
Batches epoch(Loader& loader) {
  Batches batches;
  for (auto& batch : loader) batches.push_back(flat(batch));
  return batches;
}

inline bool same(const Batches& a, const Batches& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_bits(a[i], b[i])) return false;
  return true;
}

/// Returns the saved position of a loader.
template <class Loader>
ikebana::StateDict saved(Loader& loader) {
  ikebana::StateDict state;
  ikebana::Archive archive(state, ikebana::Archive::Mode::Save);
  ikebana::StateParts(loader).state(archive);
  return state;
}
template <class Loader>
void load(Loader& loader, ikebana::StateDict state) {
  ikebana::Archive archive(state, ikebana::Archive::Mode::Check);
  ikebana::StateParts parts(loader);
  parts.state(archive);
  archive.finish_check();
  parts.state(archive);
}

}  // namespace test::data
