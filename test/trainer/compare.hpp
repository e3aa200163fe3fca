#pragma once
// Defines comparisons that tests of the trainer share: bits of models and of states, texts of
// errors.
#include "test.hpp"

#include <ikebana.hpp>
#include <typeinfo>

namespace test {

/// Copies of a model's parameters and buffers.
template <class Holder>
std::vector<at::Tensor> values_of(const Holder& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  for (const auto& b : model->buffers()) all.push_back(b.clone());
  return all;
}
template <class Holder>
bool no_gradients(const Holder& model) {
  for (auto p : model->parameters())
    if (p.mutable_grad().defined()) return false;
  return true;
}
inline bool same(const ikebana::StateDict& a, const ikebana::StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a)
    if (!b.count(name) || !same_bits(tensor, b.at(name))) return false;
  return true;
}
inline at::Tensor random(at::IntArrayRef sizes, int seed = 1) {
  return at::randn(sizes, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
}

/// Batch norm and dropout: buffers that each step changes, and random numbers.
struct NoiseImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm{nullptr};
  explicit NoiseImpl(int width) { norm = register_module("norm", torch::nn::BatchNorm1d(width)); }
  at::Tensor forward(const at::Tensor& x) { return torch::dropout(norm(x), 0.3, is_training()); }
};
TORCH_MODULE(Noise);

inline torch::nn::Linear linear() {
  torch::manual_seed(0);
  return torch::nn::Linear(3, 5);
}

using Words = std::vector<const char*>;

/// Returns an empty text if `f` throws an E whose message has all these words, else what is wrong.
template <class E, class F>
std::string told(F&& f, const Words& words) {
  std::string message;
  try {
    f();
    return "nothing was thrown";
  } catch (const E& error) {
    message = error.what();
    if (typeid(error) != typeid(E)) return std::string("another class: ") + message;
  } catch (const std::exception& error) {
    return std::string("another family: ") + error.what();
  }
  for (const char* word : words)
    if (!contains(message, word)) return "no `" + std::string(word) + "` in: " + message;
  return {};
}

/// Also requires that the trainer is as before: it has the same bits and no gradients, and is ready
/// for the next step.
template <class E, class Trainer, class Batch, class F>
std::string undone(Trainer& trainer, const Batch& good, F&& f, const Words& words) {
  const ikebana::StateDict before = trainer.state();
  std::string wrong = told<E>(f, words);
  if (!wrong.empty()) return wrong;
  if (!same(trainer.state(), before)) return "the state changed";
  if (!no_gradients(trainer.model())) return "a gradient stayed";
  trainer.step(good);
  return same(trainer.state(), before) ? "the next step did nothing" : "";
}

}  // namespace test
