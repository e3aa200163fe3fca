#pragma once
// Defines `Run` with its type erased, and `plain`, which runs a unit without a trainer.
#include <functional>
#include <ikebana/detail/away.hpp>
#include <ikebana/run/run.hpp>

namespace ikebana {

namespace detail {

/// A unit's forward with its type erased: tensors in, tensors out.
struct ErasedForward {
  using Function = std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)>;
  const Function* function;

  template <class Core>
  std::vector<at::Tensor> operator()(Core&, std::vector<at::Tensor> inputs) const {
    return (*function)(std::move(inputs));
  }
  struct Owning {
    Function function;
    ErasedForward borrowed() const { return {&function}; }
  };
  Owning owning_copy() const { return {*function}; }
};

}  // namespace detail

/// `Run` with its type erased, for a `loss` that is defined in a .cpp: `Loss loss(Runner& run,
/// const Batch&)`. Costs a few allocations per unit. Units are checked when they are run, not when
/// compiled.
class Runner {
 public:
  /// Makes it from any run, which may end before it.
  template <class Core>
  explicit Runner(Run<Core>& run)
      : evaluating(run.evaluating),
        model_(detail::has_inner_units<typename Core::Model>
                   ? run.core_->units.units()[0].module.get()
                   : nullptr),
        run_unit_([run](const torch::nn::Module* module, const Function& forward,
                        Tensors inputs) mutable {
          return run.core_->run_unit(module, detail::ErasedForward{&forward}, std::move(inputs));
        }) {}

  /// Returns `forward(args...)` of the unit. Throws BadModel for a module that is no unit of the
  /// model.
  template <class Holder, class... Args>
  auto operator()(Holder& holder, Args&&... args) {
    if constexpr (detail::passes_run_on<Runner, Holder, Args...>)
      if (detail::module_address(holder) == model_)
        return detail::run_units(*this, holder, std::forward<Args>(args)...);
    std::tuple<std::decay_t<Args>...> kept(detail::copied(std::forward<Args>(args))...);
    using Result = decltype(detail::call_forward(holder, *this, args...));
    auto rest = std::make_shared<std::optional<Result>>();  // the result without its tensors
    Tensors inputs = detail::take_tensors(kept);
    Function forward = [kept, rest, holder = detail::owning(holder),
                        run = *this](Tensors in) mutable {
      auto arguments = std::as_const(kept);
      detail::put_tensors(arguments, in);
      Result result = std::apply(
          [&](auto&... arg) { return detail::call_forward(holder, run, arg...); }, arguments);
      Tensors out = detail::take_tensors(result);
      *rest = std::move(result);
      return out;
    };
    Tensors outputs = run_unit_(detail::module_address(holder), forward, std::move(inputs));
    Result result = std::move(**rest);
    detail::put_tensors(result, outputs);
    return result;
  }

  /// True in `Trainer::evaluate`.
  bool evaluating;

 private:
  using Function = detail::ErasedForward::Function;

  const torch::nn::Module* model_;  // null if the model has no units inside
  std::function<Tensors(const torch::nn::Module*, const Function&, Tensors)> run_unit_;
};

/// Runs a unit without any wrapper: for a model used by hand, outside any trainer. Throws BadModel
/// if a trainer stores the unit's parameters elsewhere.
struct Plain {
  bool evaluating = true;  ///< as `run.evaluating`
  /// Returns `forward(args...)` of the unit.
  template <class Holder, class... Args>
  auto operator()(Holder& holder, Args&&... args) const {
    for (const auto& p : detail::module_of(holder)->parameters())
      if (detail::is_away(p))
        throw BadModel("plain: the parameters of this " + detail::module_of(holder)->name() +
                       " are stored by its trainer. Use Trainer::with_full_weights.");
    return detail::call_forward(holder, *this, std::forward<Args>(args)...);
  }
};
/// A Plain to pass on: `model->loss(plain, batch)`.
inline constexpr Plain plain;

}  // namespace ikebana
