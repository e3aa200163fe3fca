#pragma once
// Checks a policy of your own. Copy it into a project. It checks what the policy saves, what a step
// that throws or is skipped leaves of it, and that two ranks train as one does. Each takes `net()`,
// which makes the model, always with the same weights; `recipe(model, more...)`, which makes the
// trainer with the policies `more` added; and batches. Each throws a std::runtime_error that says
// what is wrong.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <ikebana/shard.hpp>
#include <stdexcept>

namespace check_policy {

/// Throws, if asked to, in the last hook before the update: axes of one's own are asked after all
/// others.
struct late : ikebana::axis::own {};
struct Fails {
  using axis = late;
  bool now = false;
};

}  // namespace check_policy

template <>
struct ikebana::Mechanism<check_policy::Fails> : ikebana::Hooks {
  check_policy::Fails values;
  explicit Mechanism(check_policy::Fails v) : values(v) {}
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    if (values.now) throw BadBatch("Fails: as it was told.");
  }
};

namespace check_policy {

using namespace ikebana;

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("check_policy: " + what);
}
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}
/// Checks that two states have the same names and bits, except names that begin with `except`.
inline void expect_same(StateDict a, StateDict b, const std::string& what,
                        const std::vector<std::string>& except = {}) {
  auto is_left_out = [&](const auto& item) {
    return std::any_of(except.begin(), except.end(),
                       [&](const auto& prefix) { return item.first.starts_with(prefix); });
  };
  std::erase_if(a, is_left_out), std::erase_if(b, is_left_out);
  for (const auto& [name, t] : a)
    expect(b.count(name) != 0 && same_bits(t, b.at(name)), what + ": `" + name + "` differs");
  expect(a.size() == b.size(), what + ": there are other tensors");
}

/// A training that is saved and loaded goes on with the same bits.
template <class Net, class Recipe, class Batches>
void resumes(const Net& net, const Recipe& recipe, const Batches& batches) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("check_policy." + std::to_string(::getpid()) + ".safetensors");
  auto trainer = recipe(net());
  for (const auto& batch : batches) trainer.step(batch);
  trainer.save(file);
  for (const auto& batch : batches) trainer.step(batch);
  auto resumed = recipe(net());
  resumed.load(file);
  std::filesystem::remove(file);
  for (const auto& batch : batches) resumed.step(batch);
  expect_same(resumed.state(), trainer.state(), "a resumed training goes on in another way");
}

/// Checks that a step that throws changes nothing: neither the state, nor what is not part of the
/// state.
template <class Net, class Recipe, class Batches>
void undoes(const Net& net, const Recipe& recipe, const Batches& batches) {
  auto trainer = recipe(net(), Fails{});
  for (const auto& batch : batches) {
    const StateDict before = trainer.state();
    trainer.template get<Fails>().now = true;
    bool threw = false;
    try {
      trainer.step(batch);
    } catch (const BadBatch&) {
      threw = true;
    }
    expect(threw, "a hook swallows exceptions");
    expect_same(trainer.state(), before, "a step that throws changes the state");
    trainer.template get<Fails>().now = false;
    trainer.step(batch);
  }
  auto unharmed = recipe(net(), Fails{});
  for (const auto& batch : batches) unharmed.step(batch);
  expect_same(trainer.state(), unharmed.state(), "a step that throws changes later ones");
}

/// A step that is skipped since gradients overflow in FP16 changes nothing of the policy. Its
/// forward was made, so buffers, such as the statistics of batch norm, and random generators go on.
template <class Net, class Recipe, class Batches>
void skips(const Net& net, const Recipe& recipe, const Batches& batches) {
  auto model = net();
  auto trainer =
      recipe(model, Precision<FP16>{.init_scale = 1, .growth_factor = 1e30, .growth_interval = 1});
  expect(!trainer.step(batches[0]).skipped(), "the first step is skipped");  // it makes the state
  const StateDict before = trainer.state();
  expect(trainer.step(batches[0]).skipped(), "a hook makes an overflow finite");
  std::vector<std::string> others = {"ikebana.trainer.", "ikebana.Precision<FP16>."};
  for (const auto& buffer : model->named_buffers()) others.push_back(buffer.key());
  expect_same(trainer.state(), before, "a step that is skipped changes the state", others);
}

/// Checks that two ranks, which are threads, train as one rank does on two microbatches. `How` is
/// DDP, ZeRO2 or FSDP. Gradients of parameters with a multiple of 32 elements and a row for each
/// rank have the same bits. A net with dropout draws other numbers on each rank, and is no net for
/// this check.
template <class How, class Net, class Recipe, class Batches>
void on_two_ranks(const Net& net, const Recipe& recipe, const Batches& batches) {
  auto weights_of = [](auto& trainer) {
    StateDict all;
    trainer.with_full_weights([&](auto& model) {
      for (const auto& p : model->named_parameters()) all[p.key()] = p.value().detach().clone();
    });
    return all;
  };
  auto alone = recipe(net(), Accumulate<2>{});
  for (const auto& batch : batches) alone.step(batch);
  const auto store = c10::make_intrusive<c10d::HashStore>();
  auto train = [&](std::int64_t rank, auto model) {
    auto trainer = recipe(model, Shard<How>{.process_group = ProcessGroup(store, rank, 2)});
    for (const auto& batch : batches)
      trainer.step(narrow(batch, rank * rows(batch) / 2, rows(batch) / 2));
    const StateDict weights = weights_of(trainer);
    trainer.restore_model();
    return weights;
  };
  auto models = {net(), net()};  // made one after the other: threads share the random generator
  auto other = std::async(std::launch::async, train, 1, *(models.begin() + 1));
  const StateDict first = train(0, *models.begin());
  expect_same(other.get(), first, "the ranks differ");
  expect_same(first, weights_of(alone), "two ranks train in another way than one");
}

}  // namespace check_policy
