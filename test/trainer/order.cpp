// Tests the order in which a step calls its mechanisms, recorded by a spy on every axis.
#include "test.hpp"

#include <algorithm>

#include "nest.hpp"

using namespace ikebana;

namespace test::order {

struct First {
  using axis = ikebana::axis::observe;
};
struct Second {
  using axis = ikebana::axis::observe;
};
template <class Policy>
struct Watcher : ObserveHooks {
  Policy values;
  explicit Watcher(Policy v) : values(v) {}
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    journal.note(ikebana::detail::type_name<Policy>());
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    journal.note(ikebana::detail::type_name<Policy>() + "." + unit.name);
    return next(std::forward<Args>(args)...);
  }
};

}  // namespace test::order

template <>
struct ikebana::Mechanism<test::order::First> : test::order::Watcher<test::order::First> {
  using Watcher::Watcher;
};
template <>
struct ikebana::Mechanism<test::order::Second> : test::order::Watcher<test::order::Second> {
  using Watcher::Watcher;
};

namespace test::order {

using Strings = std::vector<std::string>;

Strings words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}
/// Returns the first difference of two journals; empty if they are equal.
std::string difference(const Strings& got, const Strings& expected) {
  for (std::size_t i = 0; i < std::max(got.size(), expected.size()); ++i) {
    std::string a = i < got.size() ? got[i] : "the end",
                b = i < expected.size() ? expected[i] : "the end";
    if (a != b) return "at " + std::to_string(i) + " came " + a + ", not " + b;
  }
  return {};
}
std::string each(const Strings& axes, const std::string& hook) {
  std::string text;
  for (const auto& axis : axes) text += " " + axis + "." + hook;
  return text;
}
const Strings gather_chain = {"offload", "precision", "shard"};
const Strings reduce_chain = {"shard", "precision", "offload"};
const Strings wrapping = {"observe",   "capture",    "shard",     "offload", "checkpoint",
                          "precision", "accumulate", "objective", "clip",    "optimizer",
                          "schedule",  "average",    "freeze",    "device",  "layout"};

/// Returns the calls around a unit, outermost first.
std::string onion(bool moves, const std::string& unit, const std::string& inside) {
  auto around = [&](const char* axis) {
    return std::string(axis) + ".around_unit(" + unit + "){ ";
  };
  return around("observe") + (moves ? each(gather_chain, "gather(" + unit + ")") + " " : "") +
         around("shard") + around("offload") + around("capture") + around("checkpoint") +
         around("precision") + inside + " } } } } } } ";
}
std::string forward(bool moves) {
  return (moves ? each(gather_chain, "gather()") : std::string()) +
         " precision.around_forward{ objective.loss{ forward(root) " +
         onion(moves, "outer", "forward(outer) " + onion(moves, "outer.inner", "forward(inner)")) +
         " } } ";
}
/// The unit whose forward ended last stays: it is not gathered a second time.
std::string backward(bool moves) {
  auto before = [&](const std::string& unit) {
    return each({"observe", "shard", "offload"}, "before(" + unit + ")") +
           (moves && unit != "outer" ? each(gather_chain, "gather(" + unit + ")") : "");
  };
  auto after = [&](const std::string& unit) {
    return (moves ? each(reduce_chain, "reduce(" + unit + ")") : "") +
           each({"offload", "shard", "observe"}, "after(" + unit + ")");
  };
  return before("outer") + before("outer.inner") + " backward(inner)" + after("outer.inner") +
         " backward(outer)" + after("outer") + " backward(root)" +
         (moves ? each(reduce_chain, "reduce()") : "");
}
/// Returns the calls of one step of two microbatches, in the order of step.hpp.
std::string whole_step(bool moves) {
  std::string text =
      "observe.around_step{ capture.around_step{ checkpoint.around_step{ accumulate.around_step{"
      " precision.around_step{ observe.data{ device.place layout.place } accumulate.split"
      " objective.count objective.count";
  for (const char* travel :
       {" shard.set_requires_gradient_sync()", " shard.set_requires_gradient_sync(last)"})
    text += std::string(travel) + " observe.forward{ capture.around_microbatch{ " + forward(moves) +
            " } } observe.backward{ capture.around_gradients{ precision.scale " + backward(moves) +
            " } }";
  return text +
         " observe.optimizer{ shard.finish_reductions precision.unscale clip.clip"
         " precision.accept clip.accept" +
         each(wrapping, "prepare") + " optimizer.update" + each(wrapping, "after_update") +
         each(wrapping, "end_step") + " } } } } } }";
}

template <bool Moves>
test::Watched<test::Nest, Moves> watched() {
  return test::Watched<test::Nest, Moves>(test::nest());
}
template <class Trainer>
Strings asked_in_step(Trainer& trainer) {
  trainer.step(test::rows_of(1));
  journal.lines.clear();
  trainer.step(test::rows_of(2));
  return journal.lines;
}

using Plainest = Mechanisms<compose_t<AdamW>>;
static_assert(std::is_same_v<ParametersOf<Plainest>, InPlaceParameters<Plainest>>);
static_assert(!Plainest::moves_parameters && !Plainest::listens_to_backward);
static_assert(!Plainest::keeps_gathered && !Plainest::per_unit);
template <class... Spies>
using Hearing = Mechanisms<compose_t<Spies...>>;
static_assert(Hearing<test::Spy<axis::shard>>::listens_to_backward);
static_assert(Hearing<test::Spy<axis::observe>>::listens_to_backward);
static_assert(!Hearing<test::Spy<axis::clip>>::listens_to_backward);
static_assert(!Hearing<test::Spy<axis::shard>>::moves_parameters);
static_assert(Hearing<test::Spy<axis::shard, true>>::moves_parameters);
static_assert(Hearing<test::Spy<axis::offload, true>>::moves_parameters);

TEST_CASE("order: a step whose parameters stay in place") {
  auto trainer = watched<false>();
  CHECK(difference(asked_in_step(trainer), words(whole_step(false))) == "");
}

TEST_CASE("order: a step whose parameters are gathered and released") {
  auto trainer = watched<true>();
  CHECK(difference(asked_in_step(trainer), words(whole_step(true))) == "");
}

TEST_CASE("order: construction calls freeze, attach, to_masters and begin") {
  journal.lines.clear();
  auto trainer = watched<true>();
  Strings expected = words("freeze.freeze" + each(wrapping, "attach"));
  for (const char* unit : {"", "outer", "outer.inner"})
    for (const char* axis : {"shard", "precision", "offload"})
      expected.push_back(std::string(axis) + ".to_masters(" + unit + ")");
  for (const auto& line : words(each(wrapping, "begin"))) expected.push_back(line);
  CHECK(difference(journal.lines, expected) == "");
}

TEST_CASE("order: the first step calls what every step calls") {
  auto trainer = watched<false>();
  journal.lines.clear();
  trainer.step(test::rows_of(1));
  CHECK(difference(journal.lines, words(whole_step(false))) == "");
}

TEST_CASE("order: evaluation gathers and computes, and calls no hook of a step") {
  auto trainer = watched<true>();
  journal.lines.clear();
  trainer.evaluate(std::vector{test::rows_of(1), test::rows_of(2)});
  std::string one = "device.place layout.place " + forward(true);
  std::string all = "average.around_evaluation{ " + one + one + " }";
  CHECK(difference(journal.lines, words(all)) == "");
}

TEST_CASE("order: fit calls every mechanism at the end of an epoch, after its validation") {
  auto trainer = watched<false>();
  auto data = std::vector{test::rows_of(1)};
  journal.lines.clear();
  FitOptions<decltype(test::rows_of(1))> options{.epochs = 1, .validate = data};
  trainer.fit(data, options);
  Strings expected = words("average.around_evaluation{ device.place layout.place " +
                           forward(false) + " }" + each(wrapping, "end_epoch"));
  auto begin = std::find(journal.lines.begin(), journal.lines.end(), expected[0]);
  CHECK(difference({begin, journal.lines.end()}, expected) == "");
}

TEST_CASE("order: a range of batches is not cut, each is placed, the last one is marked") {
  auto trainer = watched<false>();
  asked_in_step(trainer);
  journal.lines.clear();
  trainer.step(std::vector{test::rows_of(1), test::rows_of(2), test::rows_of(3)});
  auto times = [](const std::string& line) {
    return std::count(journal.lines.begin(), journal.lines.end(), line);
  };
  CHECK(times("device.place") == 3);
  CHECK(times("accumulate.split") == 0);
  CHECK(times("objective.count") == 3);
  CHECK(times("shard.set_requires_gradient_sync()") == 2);
  CHECK(times("shard.set_requires_gradient_sync(last)") == 1);
  CHECK(times("forward(inner)") == 3);
}

TEST_CASE("order: of several policies of one axis the first written is the outermost") {
  test::Nest model = test::nest();
  Trainer<test::Nest, First, Second> trainer(model);
  journal.lines.clear();
  trainer.step(test::rows_of(1));
  Strings heard;
  for (const auto& line : journal.lines)
    if (!test::contains(line, "ward(")) heard.push_back(line.substr(line.rfind(':') + 1));
  CHECK(heard == Strings{"First", "Second", "First.outer", "Second.outer", "First.outer.inner",
                         "Second.outer.inner"});
}

TEST_CASE("order: a hook that is not overridden attaches nothing to the graph") {
  auto hooks = [](auto trainer) {
    std::size_t all = 0;
    trainer.with_full_weights([&](auto& model) {
      auto listen = [&](const at::Tensor& t) {
        all += t.grad_fn() ? t.grad_fn()->tensor_pre_hooks().size() : 0;
        return t;
      };
      model->listen = listen;
    });
    trainer.step(test::rows_of(1));
    return all;
  };
  CHECK(hooks(Trainer<test::Nest, AdamW>(test::nest())) == 0);
  CHECK(hooks(Trainer<test::Nest, test::Spy<axis::shard>>(test::nest())) > 0);
}

}  // namespace test::order
