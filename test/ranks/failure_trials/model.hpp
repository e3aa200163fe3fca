#pragma once
// Defines the model of the trials of failures, and a policy that makes a given call of a hook fail.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <ikebana/shard.hpp>
#include <map>
#include <mutex>
#include <thread>

namespace trials {

/// The task of this process, read from environment variables.
struct Plan {
  std::string policy, harm;
  std::int64_t victim = -1, call = -1, limit_ms = 3000;
  std::chrono::microseconds delay{0};
  std::string folder;

  static Plan of_environment() {
    auto text = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    auto number = [&](const char* name) { return std::stoll(text(name)); };
    return {text("TRIAL_POLICY"),     text("TRIAL_HARM"),
            number("TRIAL_VICTIM"),   number("TRIAL_CALL"),
            number("TRIAL_LIMIT_MS"), std::chrono::microseconds(number("TRIAL_DELAY_US")),
            text("TRIAL_FOLDER")};
  }
};

/// Lines of this rank, each with the time, which processes of one machine share.
class Log {
 public:
  Log(const std::string& folder, std::int64_t rank)
      : file_(folder + "/" + std::to_string(rank), std::ios::app) {}
  void line(const std::string& what, const std::string& text = {}) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    std::string one = text;
    for (char& c : one)
      if (c == '\n') c = ' ';
    const std::lock_guard lock(mutex_);
    file_ << what << ' ' << std::chrono::nanoseconds(now).count() << ' ' << one << std::endl;
  }

 private:
  std::mutex mutex_;
  std::ofstream file_;
};

/// Counts the calls of hooks. At the planned one the victim throws, dies or stops.
struct Harm {
  const Plan& plan;
  Log& log;
  bool is_victim;
  std::int64_t calls = 0;

  void call() {
    if (calls++ != plan.call || !is_victim) return;
    if (plan.harm == "throw" || plan.harm == "rejoin") {
      log.line("event", "throw");
      throw std::runtime_error("harm at call " + std::to_string(plan.call));
    }
    if (plan.harm == "kill") strike(SIGKILL);
    if (plan.harm == "stop") strike(SIGSTOP);
  }
  void strike(int signal) {
    log.line("event", signal == SIGKILL ? "kill" : "stop");
    std::raise(signal);
  }
  /// Sends the signal by a thread, wherever this one is then.
  void strike_later(int signal) {
    std::thread([this, signal] {
      std::this_thread::sleep_for(plan.delay);
      strike(signal);
    }).detach();
  }
};
struct Harmed {
  using axis = ikebana::axis::observe;
  Harm* harm;
};

struct Rows {
  at::Tensor input, target;
};
constexpr std::int64_t width = 96;  // cut among 2, 3 and 4 ranks at multiples of 8 elements

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(width, width)),
                    down = register_module("down", torch::nn::Linear(width, width));
  at::Tensor forward(const at::Tensor& x) { return x + down(at::tanh(up(x))); }
};
TORCH_MODULE(Block);
struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Block>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(8, width));
  std::vector<Block> blocks;
  torch::nn::Linear head;
  std::vector<std::size_t> order{0, 1, 2, 3};

  explicit NetImpl(std::int64_t classes)
      : head(register_module("head", torch::nn::Linear(width, classes))) {
    for (int i = 0; i < 4; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  template <class Run>
  ikebana::Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = embed(batch.input);
    for (const std::size_t i : order) x = run(blocks[i], x);
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  ikebana::Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Net);

}  // namespace trials

template <>
struct ikebana::Mechanism<trials::Harmed> : ikebana::ObserveHooks {
  static constexpr bool listens_to_backward = true;
  trials::Harmed values;
  explicit Mechanism(trials::Harmed v) : values(v) {}

  template <class Next>
  decltype(auto) around_phase(Phase, Next&& next) {
    values.harm->call();
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    values.harm->call();
    return next(std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit&) { values.harm->call(); }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    values.harm->call();
  }
};
