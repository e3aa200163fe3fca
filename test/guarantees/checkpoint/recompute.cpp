// A recompute must not use what was changed in place, keep what it made, do more than necessary, or
// give wrong results without an error.
#include "test.hpp"

#include "guarantees/work.hpp"

namespace guarantees::recompute {

/// Makes one step. Returns the error's text and the trace.
template <class Word>
std::pair<std::string, Trace> one_step(const WorkImpl::Body& body, const BenchImpl::After& after,
                                       bool nested) {
  Trainer<Bench, SGD, Word> trainer(bench({Work(body)}, after, nested), SGD{.lr = 0.1});
  Trace trace = parameters_of(trainer.model());
  auto what =
      test::message_of<ikebana::Error>([&] { trace[0] = trainer.step(some_rows()).mean(); });
  for (auto& p : parameters_of(trainer.model())) trace.push_back(p);
  return {what, trace};
}

template <class Words = Checkpoints, class F>
void each(F&& f) {
  for (bool nested : {false, true}) {
    INFO(std::string(nested ? "nested" : "not nested"));
    Words::each([&]<class Word>(const std::string& word) {
      INFO(word);
      f.template operator()<Word>(nested);
    });
  }
}

/// Bytes above those before a step: at its peak, and at the end of the backward of the first unit.
struct Bytes {
  std::int64_t peak = 0, last = 0;
};
template <class Word>
Bytes bytes_of(std::size_t units, std::int64_t elements) {
  bridge::MemoryCounter counter(at::kCPU);
  Bytes bytes;
  WorkImpl::Body body = [&](WorkImpl& w, at::Tensor x) {
    x = x * w.weight;
    x.register_hook([&](const at::Tensor&) { bytes.last = counter.now(); });
    for (int i = 0; i < 7; ++i) x = at::tanh(x);
    return x;
  };
  std::vector<Work> works;
  for (std::size_t i = 0; i < units; ++i) works.emplace_back(body);
  Trainer<Bench, SGD, Word> trainer{bench(works)};
  auto input = torch::ones({elements / 4, 4});
  trainer.step(input);
  auto before = counter.now();
  counter.reset_peak();
  trainer.step(input);
  return {counter.peak() - before, bytes.last - before};
}

TEST_CASE("a saved tensor changed in place is an error with checkpoint as without") {
  each([]<class Word>(bool nested) {
    for (const auto& what : forbidden) {
      INFO(what.name);
      if (nested && what.name == "output") continue;  // the outer unit's result is not saved
      auto [without, before] = one_step<Checkpoint<Off>>(what.body, what.after, nested);
      CHECK(test::contains(without, "modified by an inplace operation"));
      auto [with, unused] = one_step<Word>(what.body, what.after, nested);
      CHECK(test::contains(with, "modified by an in"));  // ikebana's text has "in-place"
    }
  });
}

TEST_CASE("what may be changed in place without checkpoint may be changed with it") {
  each([]<class Word>(bool nested) {
    for (const auto& what : allowed) {
      INFO(what.name);
      auto without = one_step<Checkpoint<Off>>(what.body, what.after, nested);
      CHECK(without.first == "");
      auto with = one_step<Word>(what.body, what.after, nested);
      CHECK(with.first == "");
      CHECK(test::same_bits(with.second, without.second));
    }
  });
}

TEST_CASE("a change that recompute cannot undo is an error, never another gradient") {
  each([]<class Word>(bool nested) {
    for (const auto& what : lost) {
      INFO(what.name);
      if (nested && &what == lost)
        continue;  // the nested unit has its own input, which nothing changes
      CHECK(one_step<Checkpoint<Off>>(what.body, what.after, nested).first == "");
      CHECK(
          test::contains(one_step<Word>(what.body, what.after, nested).first, "modified by an in"));
    }
  });
}

TEST_CASE("a recompute that differs from its forward is an error that names the unit") {
  struct Differing {
    std::string saved, word;
    std::function<at::Tensor(at::Tensor)> second;
  };
  const Differing differing[] = {
      {"shape", "Float[2, 4] where forward saved Float[3, 4]",
       [](auto x) { return x.narrow(0, 0, 2); }},
      {"type", "Double[3, 4] where forward saved Float[3, 4]",
       [](auto x) { return x.to(at::kDouble); }},
      {"number", "saved 0 tensors, forward 2", [](auto) { return at::Tensor(); }}};
  each<FramesOfUnits>([&]<class Word>(bool nested) {
    for (const auto& what : differing) {
      INFO(what.saved);
      WorkImpl::Body body = [&](WorkImpl& w, at::Tensor x) {
        if (w.begun > 1) x = what.second(x);
        return x.defined() ? at::tanh(at::sin(x)) + w.weight : w.weight;
      };
      Trainer<Bench, SGD, Word> trainer(bench({Work(body)}, no_after, nested));
      auto before = parameters_of(trainer.model());
      auto text = test::message_of<BadRecompute>([&] { trainer.step(some_rows()); });
      CHECK(test::contains(text, what.word));
      CHECK(test::contains(text, nested ? "`around.work`" : "`work0`"));
      CHECK(test::same_bits(parameters_of(trainer.model()), before));
    }
  });
}

TEST_CASE("a recompute stops at the last saved tensor and runs once per backward") {
  each<FramesOfUnits>([]<class Word>(bool nested) {
    Work work([](WorkImpl& w, at::Tensor x) { return at::tanh(x * w.weight) + 1; });
    Trainer<Bench, SGD, Word> trainer(bench({work}, no_after, nested));
    trainer.step(some_rows());
    CHECK(work->begun == 2);
    CHECK(work->ended == 1);
    trainer.model()->after = [](auto&, auto& x, auto& y) {
      torch::autograd::grad({y.sum()}, {x}, {}, true);
    };
    trainer.step(some_rows());
    CHECK(work->begun == 2 + 3);
  });
}

TEST_CASE("nested frames keep no tensor of the inner unit") {
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  std::vector<Weak> made;
  auto seen = [&](at::Tensor t) {
    auto* storage = t.storage().unsafeGetStorageImpl();
    made.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
    return t;
  };
  Work work([&](WorkImpl& w, at::Tensor x) {
    return seen(at::tanh(seen(at::tanh(seen(x) * w.weight)))) + 1;
  });
  int alive = 0;
  auto count = [&](auto&, auto&, auto&) {
    alive = 0;
    for (auto& weak : made) alive += weak.expired() ? 0 : 1;
  };
  Trainer<Bench, SGD, Checkpoint<Off>>(bench({work}, count, true)).step(some_rows());
  CHECK(alive == 3);
  Checkpoints::each([&]<class Word>(const std::string&) {
    made.clear();
    Trainer<Bench, SGD, Word>(bench({work}, count, true)).step(some_rows());
    CHECK(made.size() >= 3);
    CHECK(alive == 0);
  });
}

TEST_CASE("activations are held for one unit at a time, also those that are recomputed") {
  const std::int64_t bytes = 1 << 18;
  auto growth = [&]<class Word>() {
    auto many = bytes_of<Word>(12, bytes / 4), few = bytes_of<Word>(6, bytes / 4);
    CHECK(many.last <= 4 * bytes);  // two inputs and two gradients: backward has freed the rest
    return static_cast<double>(many.peak - few.peak) / (6.0 * bytes);
  };
  CHECK(growth.template operator()<Checkpoint<Off>>() > 6.9);
  FramesOfUnits::each([&]<class Word>(const std::string&) {
    CHECK(growth.template operator()<Word>() < 1.05);  // each unit keeps its input only
  });
}

}  // namespace guarantees::recompute
