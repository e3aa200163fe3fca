#pragma once
// A trainer whose recipe is chosen when the program runs. Each recipe is compiled once, where an
// AnyTrainer is made of it; whoever only uses one compiles none.
#include <ikebana/trainer.hpp>
#include <map>
#include <typeinfo>

namespace ikebana {

/// Any trainer that takes batches of one type, with its model and recipe erased. The same bits as
/// the trainer that it is made from; costs a virtual call a verb. Can be moved.
template <class Batch>
class AnyTrainer : public SaveAndLoad<AnyTrainer<Batch>> {
 public:
  using Handle = std::shared_ptr<torch::nn::Module>;
  /// What `with_full_weights` and `with_averaged_weights` call.
  using UseModel = std::function<void(const Handle&)>;

  template <class Model, class... Policies>
  AnyTrainer(Trainer<Model, Policies...> trainer)
      : held_(std::make_unique<Holds<Model, Policies...>>(std::move(trainer))) {}

  /// One update from one batch, cut into the recipe's microbatches; or from several batches, each
  /// one microbatch.
  Report step(const Batch& batch) { return held().step(batch); }
  Report step(const std::vector<Batch>& batches) { return held().step(batches); }

  /// The mean loss and the metrics over all batches of a loader.
  template <class Loader, class... Metrics>
  Evaluation evaluate(Loader&& loader, Metrics... metrics) {
    std::vector<Metric<Batch>> list;
    (detail::append(list, std::move(metrics)), ...);
    return held().evaluate(BatchSource<Batch>(loader), list);
  }
  /// Steps over all batches of a loader, epoch by epoch.
  template <class Loader>
  History fit(Loader&& loader, FitOptions<Batch> options = {}) {
    auto ended = [&](const Epoch& epoch) { end_epoch(epoch); };
    return ikebana::fit(*this, detail::range_of(loader), options, ended);
  }
  void end_epoch(const Epoch& epoch) { held().end_epoch(epoch); }

  StateDict state_view(const StateParts& parts = {}) { return held().state_view(parts); }
  void restore(const StateDict& state, const StateParts& parts = {}) {
    held().restore(state, parts);
  }
  std::string describe() { return held().describe(); }
  std::int64_t steps() const { return held().steps(); }
  Handle model() { return held().model(); }
  void with_full_weights(const UseModel& use) { held().with_full_weights(use); }
  void with_averaged_weights(const UseModel& use) { held().with_averaged_weights(use); }

  /// The values of a policy, where the recipe names it; else null.
  template <class Policy>
  Policy* get_if() {
    return static_cast<Policy*>(held().find(typeid(Policy)));
  }

 private:
  struct Methods {
    virtual ~Methods() = default;
    virtual Report step(const Batch&) = 0;
    virtual Report step(const std::vector<Batch>&) = 0;
    virtual Evaluation evaluate(const BatchSource<Batch>&, const std::vector<Metric<Batch>>&) = 0;
    virtual void end_epoch(const Epoch&) = 0;
    virtual StateDict state_view(const StateParts&) = 0;
    virtual void restore(const StateDict&, const StateParts&) = 0;
    virtual std::string describe() = 0;
    virtual std::int64_t steps() const = 0;
    virtual Handle model() = 0;
    virtual void with_full_weights(const UseModel&) = 0;
    virtual void with_averaged_weights(const UseModel&) = 0;
    virtual void* find(const std::type_info&) = 0;
  };
  template <class Model, class... Policies>
  struct Holds;

  Methods& held() const {
    if (!held_) throw Error("trainer: it was moved from. Use the one it was moved to.");
    return *held_;
  }

  std::unique_ptr<Methods> held_;
};

template <class Batch>
template <class Model, class... Policies>
struct AnyTrainer<Batch>::Holds final : Methods {
  Trainer<Model, Policies...> trainer;
  explicit Holds(Trainer<Model, Policies...> t) : trainer(std::move(t)) {}

  Report step(const Batch& batch) override { return trainer.step(batch); }
  Report step(const std::vector<Batch>& batches) override { return trainer.step(batches); }
  Evaluation evaluate(const BatchSource<Batch>& source,
                      const std::vector<Metric<Batch>>& metrics) override {
    return trainer.evaluate(source, metrics);
  }
  void end_epoch(const Epoch& epoch) override { trainer.end_epoch(epoch); }
  StateDict state_view(const StateParts& parts) override { return trainer.state_view(parts); }
  void restore(const StateDict& state, const StateParts& parts) override {
    trainer.restore(state, parts);
  }
  std::string describe() override { return trainer.describe(); }
  std::int64_t steps() const override { return trainer.steps(); }
  Handle model() override { return detail::module_of(trainer.model()); }
  void with_full_weights(const UseModel& use) override {
    trainer.with_full_weights([&](auto& m) { use(detail::module_of(m)); });
  }
  void with_averaged_weights(const UseModel& use) override {
    trainer.with_averaged_weights([&](auto& m) { use(detail::module_of(m)); });
  }
  void* find(const std::type_info& type) override {
    void* found = nullptr;
    ((type == typeid(Policies) ? void(found = &trainer.template get<Policies>()) : void()), ...);
    return found;
  }
};

/// Recipes by name: each a function that makes a trainer of `Args`, usually defined in a file of
/// its own. Nothing registers itself; what a program offers is what it adds.
template <class Batch, class... Args>
class Recipes {
 public:
  using Factory = std::function<AnyTrainer<Batch>(Args...)>;

  /// Throws BadValue for a name that is there already.
  Recipes& add(const std::string& name, Factory factory) {
    if (!factories_.emplace(name, std::move(factory)).second)
      throw BadValue("recipes: `" + name + "` is there already. Give each recipe its own name.");
    return *this;
  }
  /// Throws BadValue for a name that is not there, with those that are.
  AnyTrainer<Batch> make(const std::string& name, Args... args) const {
    auto found = factories_.find(name);
    if (found != factories_.end()) return found->second(std::forward<Args>(args)...);
    std::string known;
    for (const auto& one : names()) known += (known.empty() ? "" : ", ") + one;
    throw BadValue("recipes: there is no `" + name + "`. Name one of: " + known + ".");
  }
  /// In alphabetical order.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, factory] : factories_) all.push_back(name);
    return all;
  }

 private:
  std::map<std::string, Factory> factories_;
};

}  // namespace ikebana
