// Writes what profile.py compares with Python's profiler: the events that LibTorch's profiler
// recorded as they are, and the averages that ikebana makes of the same events; and the calls of
// operators of a small GPT and a small ResNet, which profile.py writes in Python as well.
#include <torch/torch.h>

#include <chrono>
#include <fstream>
#include <ikebana/observe/profile_events.hpp>
#include <ikebana/observe/profiler.hpp>
#include <ikebana/observe/profiler_loop.hpp>
#include <ikebana/observe/range.hpp>
#include <ikebana/observe/trace_files.hpp>
#include <iostream>
#include <thread>

using namespace ikebana;

namespace {

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

void gpt() {
  const std::int64_t rows = 4, length = 16, width = 32, heads = 4;
  const Tensors w{
      leaf({64, width}), leaf({3 * width, width}), leaf({width, width}),     leaf({width}),
      leaf({width}),     leaf({4 * width, width}), leaf({width, 4 * width}), leaf({64, width})};
  const at::Tensor tokens = at::arange(rows * length).remainder(64).view({rows, length});
  at::Tensor x = at::embedding(w[0], tokens);
  for (int layer = 0; layer < 2; ++layer) {
    const at::Tensor n = at::layer_norm(x, {width}, w[3], w[4]);
    Tensors qkv = at::linear(n, w[1]).chunk(3, -1);
    for (auto& t : qkv) t = t.view({rows, length, heads, width / heads}).transpose(1, 2);
    const at::Tensor scores = at::matmul(qkv[0], qkv[1].transpose(-2, -1)) * 0.25;
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), qkv[2]).transpose(1, 2);
    x = x + at::linear(mixed.reshape({rows, length, width}), w[2]);
    x = x + at::linear(at::gelu(at::linear(x, w[5])), w[6]);
  }
  const at::Tensor logits = at::linear(x, w[7]).view({rows * length, 64});
  const at::Tensor loss = at::cross_entropy_loss(logits, tokens.view({rows * length}));
  loss.backward(at::ones_like(loss));
}

void resnet() {
  const Tensors w{leaf({8, 3, 3, 3}), leaf({8, 8, 3, 3}), leaf({10, 8})};
  const at::Tensor scale = leaf({8}), shift = leaf({8}), mean = at::zeros({8}), var = at::ones({8});
  auto norm = [&](const at::Tensor& t) {
    return at::batch_norm(t, scale, shift, mean, var, true, 0.1, 1e-5, false);
  };
  at::Tensor x =
      at::relu(norm(at::conv2d(at::randn({4, 3, 16, 16}), w[0], {}, {1, 1}, {1, 1}, {1, 1})));
  for (int block = 0; block < 2; ++block)
    x = at::relu(x + norm(at::conv2d(x, w[1], {}, {1, 1}, {1, 1}, {1, 1})));
  x = at::adaptive_avg_pool2d(at::max_pool2d(x, 2), {1, 1}).flatten(1);
  const at::Tensor loss = at::linear(x, w[2]).square().mean();
  loss.backward(at::ones_like(loss));
}

/// Leaves nested ranges, a step, a range within one of its own name, and memory of no event.
void ranges() {
  RECORD_USER_SCOPE("outer");
  {
    const Range same("same"), again("same");
    at::randn({32, 32}).mm(at::randn({32, 32}));
  }
  at::RecordFunction step(at::RecordScope::USER_SCOPE);
  step.before("ProfilerStep#7");
  at::Tensor kept = at::empty({1000});
  step.end();
  kept.reset();
}

void dump(const std::vector<ikebana::detail::ProfileEvents::Recorded>& events, std::ostream& out) {
  out << "[";
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& e = events[i];
    out << (i == 0 ? "" : ",\n") << "{\"name\":" << ikebana::detail::quoted_json(e.name())
        << ",\"start\":" << e.startNs() << ",\"end\":" << e.endNs()
        << ",\"thread\":" << e.startThreadId() << ",\"end_thread\":" << e.endThreadId()
        << ",\"fwd\":" << e.fwdThreadId() << ",\"seq\":" << e.sequenceNr()
        << ",\"corr\":" << e.correlationId() << ",\"linked\":" << e.linkedCorrelationId()
        << ",\"activity\":" << int(e.activityType()) << ",\"scope\":" << int(e.scope())
        << ",\"flops\":" << e.flops() << ",\"bytes\":" << e.nBytes()
        << ",\"async\":" << (e.isAsync() ? "true" : "false")
        << ",\"shapes\":" << (e.hasShapes() ? ikebana::detail::shapes_text(e.shapes().vec()) : "[]")
        << "}";
  }
  out << "]\n";
}

void write(const std::string& folder, const std::string& name, void (*work)()) {
  namespace profiler = torch::autograd::profiler;
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO, true, true, false, true);
  const std::set<profiler::ActivityType> cpu{profiler::ActivityType::CPU};
  profiler::prepareProfiler(config, cpu);
  profiler::enableProfiler(config, cpu);
  work();
  const auto trace = profiler::disableProfiler();
  std::ofstream raw(folder + "/" + name + ".json");
  dump(trace->events(), raw);
  const ikebana::detail::UnitsOfNodes no_units({});
  ProfileResult result{.record_shapes = true, .profile_memory = true, .with_flops = true};
  result.events = ikebana::detail::ProfileEvents(trace->events(), {}, no_units, false).make();
  std::ofstream(folder + "/" + name + ".csv") << result.key_averages().csv();
  std::ofstream(folder + "/" + name + ".by_shape.csv")
      << result.key_averages({.by_shape = true}).csv();
  std::ofstream(folder + "/" + name + ".table")
      << result.key_averages().table({.sort_by = &ProfileRow::self_cpu_time_total});
}

/// Writes a trace with all that the policy's have, a range of another thread too.
void trace(const std::string& folder) {
  Profiler profiler({.wait = 0,
                     .warmup = 1,
                     .active = 2,
                     .repeat = 1,
                     .record_shapes = true,
                     .profile_memory = true,
                     .with_flops = true,
                     .folder = folder,
                     .worker_name = "worker",
                     .execution_trace = true});
  profiler.start();
  for (int step = 0; step < 4; ++step) {
    std::thread([] { const Range range("load \"a\"\n"); }).join();
    gpt();
    profiler.step();
  }
  profiler.stop();
}

/// Writes which action Python's schedule must have for each step of some values.
void schedules(const std::string& folder) {
  std::ofstream out(folder + "/schedules.csv");
  for (const Observe<Profile>& v :
       {Observe<Profile>{}, Observe<Profile>{.wait = 0, .warmup = 0, .active = 1, .repeat = 3},
        Observe<Profile>{.wait = 4, .active = 2, .repeat = 2, .skip_first = 3},
        Observe<Profile>{.wait = 5, .repeat = 2, .skip_first = 1, .skip_first_wait = 1}})
    for (std::int64_t step = 0; step < 40; ++step)
      out << v.wait << "," << v.warmup << "," << v.active << "," << v.repeat << "," << v.skip_first
          << "," << v.skip_first_wait << "," << step << ","
          << static_cast<int>(ikebana::detail::profiler_action(v, step)) << "\n";
}

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// Prints the milliseconds of a step without and with a profiler, and of a window's end per step;
/// then the nanoseconds of a Range while nothing records.
void cost() {
  const int steps = 20;
  auto loop = [](Profiler* profiler) {
    for (int step = 0; step < steps; ++step) {
      gpt();
      if (profiler != nullptr) profiler->step();
    }
  };
  double plain = 1e9, recorded = 1e9, end = 1e9;
  for (int trial = 0; trial < 4; ++trial) {
    plain = std::min(plain, milliseconds([&] { loop(nullptr); }));
    Profiler profiler({.wait = 0,
                       .warmup = 0,
                       .active = steps + 1,
                       .record_shapes = true,
                       .profile_memory = true});
    profiler.start();
    recorded = std::min(recorded, milliseconds([&] { loop(&profiler); }));
    end = std::min(end, milliseconds([&] {
                     profiler.stop();
                     profiler.result().key_averages();
                   }));
  }
  const double ranges = milliseconds([] {
    for (int i = 0; i < 1000000; ++i) const Range range("nothing records");
  });
  std::cout << plain / steps << " " << recorded / steps << " " << end / steps << " " << ranges
            << "\n";
}

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  torch::manual_seed(0);
  if (folder == "cost") {
    cost();
    return 0;
  }
  schedules(folder);
  trace(folder + "/trace");
  write(folder, "gpt", &gpt);
  write(folder, "resnet", &resnet);
  write(folder, "ranges", &ranges);
  return 0;
}
