// Times of one rank's step without other ranks, for predict.py: prints the parameters in the order
// of the model (unit, bytes), the seconds for a byte of a copy and of a sum, and for each of
// `--steps` steps a line of its events, each with the seconds since the step began.
#include <gpt_of.hpp>
#include <ikebana/bridge/gradients.hpp>

#include "rank.hpp"

namespace {

using namespace ikebana;
using bench::Place, bench::Setting;

/// Records the events of a step: the phases, the units' forwards and backwards, and the gradients.
class Events {
 public:
  void begin() { begin_ = Clock::now(), all_.clear(); }
  void add(const char* what, std::size_t which = 0) { all_.push_back({what, which, Clock::now()}); }
  void print() const {
    for (const Event& event : all_)
      std::cout << event.what << ' ' << event.which << ' '
                << std::chrono::duration<double>(event.time - begin_).count() << ' ';
    std::cout << '\n';
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* what;
    std::size_t which;
    Clock::time_point time;
  };
  Clock::time_point begin_;
  std::vector<Event> all_;
};
struct Watch {
  using axis = axis::observe;
  std::shared_ptr<Events> events = std::make_shared<Events>();
};

}  // namespace

template <>
struct ikebana::Mechanism<Watch> : ikebana::ObserveHooks {
  static constexpr bool listens_to_backward = true;
  Watch values;
  explicit Mechanism(Watch v) : values(std::move(v)) {}

  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    values.events->add(phase == Phase::Forward    ? "forward"
                       : phase == Phase::Backward ? "backward"
                       : phase == Phase::Data     ? "data"
                                                  : "optimizer");
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    values.events->add("unit", unit.index);
    return next(std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit& unit) { values.events->add("begin", unit.index); }
  void after_unit_backward(const Unit& unit) { values.events->add("end", unit.index); }
};

namespace {

/// Returns the seconds for a byte that `f` writes, as the median of some calls.
template <class F>
double seconds_per_byte(const at::Tensor& t, F&& f) {
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10] / static_cast<double>(t.nbytes());
}
/// Prints the memory of tensors that no cache holds, such as gradients and received messages.
void print_memory() {
  at::Tensor a = at::ones({1 << 24}), b = at::ones({1 << 24});
  std::cout << "copy " << seconds_per_byte(a, [&] { a.copy_(b); }) << " add "
            << seconds_per_byte(a, [&] { a.add_(b); }) << '\n';
}
/// Prints the unit of each parameter. 0 is the root.
void print_parameters(const GPT& model) {
  for (const auto& item : model->named_parameters()) {
    std::size_t unit = 0, next = 1;
    for (const auto& child : model->named_modules("", false))
      if (child.value()->as<BlockImpl>() != nullptr) {
        if (item.key().starts_with(child.key() + ".")) unit = next;
        ++next;
      }
    std::cout << unit << ' ' << item.value().nbytes() << ' ';
  }
  std::cout << '\n';
}

int run(const Setting& setting) {
  const auto batches = bench::own_batches(setting, Place(setting));
  const GPT model = bench::gpt_of(setting);
  print_parameters(model);
  print_memory();
  Watch watch;
  Trainer trainer{model, AdamW{.lr = 1e-3}, watch};
  std::vector<bridge::PostAccumulateHook> hooks;
  const Tensors parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    hooks.emplace_back(parameters[i],
                       [&, i](const at::Tensor&) { watch.events->add("arrive", i); });
  const std::int64_t warm_up = 3, steps = setting.number("steps");
  for (std::int64_t i = 0; i < warm_up + steps; ++i) {
    const auto& batch = batches[static_cast<std::size_t>(i) % batches.size()];
    watch.events->begin();
    trainer.step(Tokens{batch.first, batch.second}).loss();
    watch.events->add("done");
    if (i >= warm_up) watch.events->print();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    std::cout.precision(9);
    return run(Setting(argc, argv));
  });
}
