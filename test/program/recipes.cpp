// The guarantees of recipes hold on programs of Python.
#include <sys/wait.h>

#include <csignal>
#include <ikebana/capture.hpp>

#include "program/case.hpp"
#include "ranks/groups.hpp"
#include "state/folder.hpp"

namespace program {

constexpr std::size_t few = 4;

/// Losses of the first steps, and what they have made of the model.
struct Trace {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;

  bool operator==(const Trace& other) const {
    return losses == other.losses && test::same_bits(weights, other.weights);
  }
};

/// `batch_of(batch)` is what the trainer is given of each.
template <class T, class F>
Trace trace_of(T&& trainer, const Case& one, F&& batch_of) {
  torch::manual_seed(11);
  Trace trace;
  for (const Batch& batch : one.first(few))
    trace.losses.push_back(trainer.step(batch_of(batch)).loss());
  trainer.with_full_weights([&](auto& model) {
    for (const auto& p : model->parameters()) trace.weights.push_back(p.detach().clone());
    for (const auto& b : model->buffers()) trace.weights.push_back(b.clone());
  });
  trace.weights.push_back(torch::rand({4}));
  return trace;
}
template <class T>
Trace trace_of(T&& trainer, const Case& one) {
  return trace_of(trainer, one, [](const Batch& batch) { return batch; });
}

TEST_CASE("programs are checkpointed and offloaded to the bit") {
  each([](const Case& one) {
    const Trace plain = trace_of(one.trainer(), one);
    CHECK(plain.losses[0] != plain.losses[few - 1]);
    CHECK(trace_of(one.trainer(Checkpoint<Full>{}), one) == plain);
    CHECK(trace_of(one.trainer(Checkpoint<Selective>{}), one) == plain);
    CHECK(trace_of(one.trainer(Offload<CPU>{}), one) == plain);
  });
}

TEST_CASE("programs are captured to the bit") {
  each([](const Case& one) {
    Objective objective = one.objective;
    objective.count_is_tensor = true;
    auto losses = [&](auto... policies) {
      torch::manual_seed(11);
      Trainer trainer{one.with_units(), objective, one.adamw, policies...};
      Trace trace;
      for (int round = 0; round < 2; ++round)
        for (const Batch& batch : one.first(few))
          trace.losses.push_back(trainer.step(batch).loss());
      trainer.with_full_weights([&](auto& model) {
        for (const auto& p : model->parameters()) trace.weights.push_back(p.detach().clone());
      });
      CHECK(((trainer.template mechanism<decltype(policies)>().replays() > 0) && ...));
      return trace;
    };
    CHECK(losses(Capture<WholeStep>{}) == losses());
    CHECK(losses(Capture<EachUnit>{.on_refusal = OnRefusal::Eager}) == losses());
  });
}

/// Returns a batch in as many parts as there are ranks, as Accumulate cuts it.
std::vector<Batch> parts_of(const Batch& batch, std::int64_t parts) {
  std::vector<Batch> all;
  const std::int64_t rows = batch.begin()->second.size(0);
  for (std::int64_t i = 0; i < parts; ++i)
    all.push_back(narrow(batch, i * rows / parts, rows / parts));
  return all;
}

TEST_CASE(
    "programs without units are one, and are checkpointed, offloaded and sharded to the bit") {
  each([](const Case& one) {
    const auto trainer = [&](auto... policies) {
      return Trainer{load_program(folder() / (one.name + ".pt2"), {.units = "none"}), one.objective,
                     one.adamw, policies...};
    };
    const Trace plain = trace_of(one.trainer(), one);
    CHECK(trace_of(trainer(), one) == plain);
    CHECK(trace_of(trainer(Checkpoint<Full>{}), one) == plain);
    CHECK(trace_of(trainer(Checkpoint<Selective>{}), one) == plain);
    CHECK(trace_of(trainer(Offload<CPU>{}), one) == plain);
    test::ranks::on_groups(1, [&](const ProcessGroup& group) {
      CHECK(trace_of(trainer(Shard<FSDP>{.process_group = group}), one) == plain);
    });
  });
}

TEST_CASE("programs accumulate to the bit what a range of microbatches gives") {
  each([](const Case& one) {
    const Trace cut = trace_of(one.trainer(Accumulate<4>{}), one);
    CHECK(trace_of(one.trainer(), one, [](const Batch& b) { return parts_of(b, 4); }) == cut);
  });
}

TEST_CASE("programs resume to the bit") {
  each([](const Case& one) {
    const auto file = std::filesystem::temp_directory_path() /
                      ("program-" + std::to_string(::getpid()) + ".state");
    auto whole = one.trainer(), half = one.trainer(), again = one.trainer();
    const auto batches = one.first(few);
    torch::manual_seed(11);
    for (const Batch& batch : batches) whole.step(batch);
    torch::manual_seed(11);
    half.step(batches[0]), half.step(batches[1]);
    half.save(file);
    torch::manual_seed(12);
    again.load(file);
    std::filesystem::remove(file);
    again.step(batches[2]), again.step(batches[3]);
    CHECK(test::same_state(again.state(), whole.state()));
  });
}

/// Trains the first steps of a case, and saves after each; `on_step` is called after it.
template <class T, class F>
void fit_first(T& trainer, const Case& one, const std::filesystem::path& states, F&& on_step) {
  torch::manual_seed(11);
  trainer.fit(one.first(few), {.on_step = [&](const Report&) { on_step(); },
                               .progress = false,
                               .save_to = states,
                               .save_every = 1,
                               .resume = true});
}

/// The process that is killed: this program, with the names of a case and of a folder.
constexpr const char* killed_case = "IKEBANA_KILLED_CASE";
constexpr const char* killed_states = "IKEBANA_KILLED_STATES";

TEST_CASE("programs: one of them is killed" * doctest::skip()) {
  const std::string name = std::getenv(killed_case);
  each([&](const Case& one) {
    if (one.name != name) return;
    auto trainer = one.trainer();
    fit_first(trainer, one, std::getenv(killed_states), [steps = std::size_t{0}]() mutable {
      if (++steps == few / 2 + 1) raise(SIGKILL);
    });
  });
}

TEST_CASE("programs resume to the bit after SIGKILL") {
  each([](const Case& one) {
    const test::Folder whole_states, states;
    const pid_t child = fork();
    if (child == 0) {
      setenv(killed_case, one.name.c_str(), 1);
      setenv(killed_states, states.path.c_str(), 1);
      execl("/proc/self/exe", "program_parity", "--no-skip", "-tc=programs: one of them is killed",
            static_cast<char*>(nullptr));
      _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    auto whole = one.trainer(), resumed = one.trainer();
    std::size_t steps = 0;
    fit_first(whole, one, whole_states.path, [] {});
    fit_first(resumed, one, states.path, [&] { ++steps; });
    CHECK(steps < few);
    CHECK(steps > 0);
    CHECK(test::same_state(resumed.state(), whole.state()));
  });
}

/// Returns true if a part of a batch trains as it does within the batch: it has no batch norm, and
/// draws nothing.
bool is_same_in_parts(const Case& one) {
  if (!one.program()->buffers().empty()) return false;
  torch::manual_seed(11);
  auto trainer = one.trainer();
  trainer.step(one.batches[0]);
  const at::Tensor next = torch::rand({4});
  torch::manual_seed(11);
  return test::same_bits(next, torch::rand({4}));
}

TEST_CASE("programs are sharded: 2 ranks have the bits of Accumulate<2>, and 1 rank of none") {
  each([](const Case& one) {
    const auto sharded = [&](const ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      return trace_of(one.trainer(Shard<FSDP>{.process_group = group}), one,
                      [&](const Batch& b) { return parts_of(b, group.size())[rank]; });
    };
    const Trace plain = trace_of(one.trainer(), one);
    test::ranks::on_groups(1, [&](const ProcessGroup& group) { CHECK(sharded(group) == plain); });
    if (!is_same_in_parts(one)) return;
    const auto without_draws = [](Trace trace) {  // ranks in threads have one source of them
      trace.weights.pop_back();
      return trace;
    };
    const Trace expected = without_draws(trace_of(one.trainer(Accumulate<2>{}), one));
    test::ranks::on_groups(
        2, [&](const ProcessGroup& group) { CHECK(without_draws(sharded(group)) == expected); });
  });
}

}  // namespace program
