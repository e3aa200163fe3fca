// Graphs of the simulated accelerator behave as CUDA's: a capture computes nothing and permits
// nothing for which the host waits, and a graph uses the memory that it was captured with. One
// planted mistake per case.
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <ikebana/bridge/device_graph.hpp>
#include <thread>

#include "device.hpp"
#include "simulated.hpp"

namespace gpu::simulated_captures {

using ikebana::bridge::GraphCapture;

#define SIMULATED_CASE()                                                       \
  NOT_RUN_UNLESS(gpu::on_simulated(), "a check of the simulated device only"); \
  simulated::install();                                                        \
  simulated::take_errors()

ikebana::bridge::GraphMaker& maker() { return *ikebana::bridge::graphs_of(c10::kPrivateUse1); }
c10::Stream side_stream() {
  return c10::impl::VirtualGuardImpl(c10::kPrivateUse1)
      .getStreamFromGlobalPool(simulated::device(), false);
}

/// A graph in a pool of its own.
struct Graph {
  std::unique_ptr<ikebana::bridge::DeviceGraph> graph = maker().make_graph(simulated::device());
  c10::MempoolId_t pool = maker().new_pool();
  c10::Stream stream = side_stream();
  template <class F>
  void capture(F&& f) {
    GraphCapture capture(*graph, stream, pool);
    f();
    capture.end();
  }
  /// Returns the error of a capture, which makes no graph.
  template <class F>
  std::string error_of(F&& f) {
    return test::message_of<c10::Error>([&] { capture(f); });
  }
};
at::Tensor values(double first = 1) {
  return (at::arange(4, at::kFloat) + first).to(simulated::device());
}

TEST_CASE("simulated graphs: a capture computes nothing, and each replay computes all") {
  SIMULATED_CASE();
  Graph graph;
  const auto input = values(), total = values(0);
  at::Tensor sum, grown = at::empty({0}, input.options());
  graph.capture([&] {
    sum = (input * 2).view({2, 2}).t().sum(0);
    total.add_(input);
    at::mul_out(grown, input, input);
  });
  CHECK(test::same_bits(total.cpu(), values(0).cpu()));
  CHECK_FALSE(test::same_bits(sum.cpu(), (values() * 2).view({2, 2}).t().sum(0).cpu()));
  for (int i = 1; i <= 3; ++i) {
    input.copy_(values(i));
    graph.graph->replay();
    CHECK(test::same_bits(sum.cpu(), (values(i) * 2).view({2, 2}).t().sum(0).cpu()));
    CHECK(test::same_bits(grown.cpu(), (values(i) * values(i)).cpu()));
  }
  CHECK(test::same_bits(total.cpu(), (values(0) + values(1) + values(2) + values(3)).cpu()));
  CHECK(simulated::take_errors().empty());
}

TEST_CASE("simulated graphs: a replay is one launch") {
  SIMULATED_CASE();
  Graph graph;
  const auto input = values();
  graph.capture([&] { input.mul_(2).add_(1).sqrt_(); });
  const simulated::Launches launches;
  graph.graph->replay();
  CHECK(launches.names() == std::vector<std::string>{"graph"});
}

TEST_CASE("simulated graphs: what the host reads or copies ends a capture with an error") {
  SIMULATED_CASE();
  const auto input = values();
  auto pinned = at::zeros({4}, at::TensorOptions().pinned_memory(true));
  const auto part = "operation not permitted when stream is capturing";
  auto refused = [&](auto&& f) { return test::contains(Graph().error_of(f), part); };
  CHECK(refused([&] { input.sum().item(); }));
  CHECK(refused([&] { input.cpu(); }));
  CHECK(refused([&] { input.copy_(pinned, /*non_blocking=*/true); }));
  CHECK(refused([&] { input.nonzero(); }));
  CHECK(refused([&] { at::globalContext().defaultGenerator(input.device()).get_state(); }));
  auto swallowed = [&] {
    try {
      input.sum().item();
    } catch (const c10::Error&) {
    }
  };
  CHECK(test::contains(Graph().error_of(swallowed), "due to a previous error during capture"));
  Graph graph;
  CHECK(test::contains(graph.error_of([&] { graph.stream.synchronize(); }), part));
  CHECK(test::contains(test::message_of<c10::Error>([&] { graph.graph->replay(); }), "is empty"));
}

TEST_CASE("simulated graphs: a stream that is captured does not wait for another one") {
  SIMULATED_CASE();
  const auto main = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(simulated::device());
  Graph graph;
  auto waits = [&](const c10::Stream& of, const c10::Stream& by) {
    return graph.error_of([&] {
      c10::Event event(c10::kPrivateUse1);
      event.record(of);
      event.block(by);
    });
  };
  CHECK(test::contains(waits(main, graph.stream), "wait for each other"));
  CHECK(test::contains(waits(graph.stream, main), "wait for each other"));
  CHECK(waits(graph.stream, graph.stream).empty());
}

TEST_CASE("simulated graphs: memory that was freed is used by no graph") {
  SIMULATED_CASE();
  Graph graph;
  auto input = values();
  graph.capture([&] { (void)input.exp(); });
  graph.graph->replay();
  input.reset();
  CHECK(test::contains(test::message_of<c10::Error>([&] { graph.graph->replay(); }), "were freed"));
}

TEST_CASE("simulated graphs: memory is used again within a pool, and results stay") {
  SIMULATED_CASE();
  Graph graph;
  const auto input = at::ones({1 << 14}, at::TensorOptions(simulated::device()));
  const auto before = simulated::graph_memory();
  at::Tensor x = input;
  graph.capture([&] {
    for (int i = 0; i < 10; ++i) x = x + 1;
  });
  CHECK(simulated::graph_memory() - before == 2 * input.nbytes());
  Graph second;
  at::Tensor y = input;
  second.pool = graph.pool;
  second.capture([&] { y = input * 3; });
  CHECK(simulated::graph_memory() - before == 2 * input.nbytes());
  graph.graph->replay(), second.graph->replay();
  CHECK(test::same_bits(x.cpu(), at::full({1 << 14}, 11.F)));
  CHECK(test::same_bits(y.cpu(), at::full({1 << 14}, 3.F)));
}

TEST_CASE("simulated graphs: replays draw from the default generator in its order") {
  SIMULATED_CASE();
  Graph graph;
  at::Tensor drawn;
  auto generator = at::globalContext().defaultGenerator(simulated::device());
  generator.set_current_seed(5);
  const auto options = values().options();
  const auto first = at::rand({6}, options).cpu(), second = at::rand({6}, options).cpu();
  generator.set_current_seed(5);
  graph.capture([&] { drawn = at::rand({6}, options); });
  graph.graph->replay();
  CHECK(test::same_bits(drawn.cpu(), first));
  graph.graph->replay();
  CHECK(test::same_bits(drawn.cpu(), second));
}

TEST_CASE("simulated graphs: another thread computes and allocates as it likes meanwhile") {
  SIMULATED_CASE();
  Graph graph;
  const auto input = values();
  const auto before = simulated::graph_memory();
  at::Tensor other, sum;
  graph.capture([&] {
    std::thread([&] { other = (values(3) * 2).cpu(); }).join();
    sum = input.sum();
  });
  CHECK(simulated::graph_memory() - before == 512);  // the sum alone
  CHECK(test::same_bits(other, (values(3) * 2).cpu()));
  graph.graph->replay();
  CHECK(test::same_bits(sum.cpu(), values().sum().cpu()));
}

}  // namespace gpu::simulated_captures
