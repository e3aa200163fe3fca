#pragma once
// Defines the policy CTCLoss and its mechanism.
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Connectionist temporal classification: the output holds log-probabilities (T, N, C), with
/// `batch_first` (N, T, C). The sum of each sample's loss, divided by the length of its target (at
/// least 1); counts samples, as PyTorch's mean does. The batch is a struct with `input`, `target`
/// (N, S), padded, `input_lengths` and `target_lengths`, which are a std::vector<std::int64_t> or a
/// tensor; or with a Ragged `target`, which knows its lengths. `input_lengths` are the lengths of
/// the output. On a device, lengths in tensors are read back, which waits for it. Computes in
/// single precision at least. The loss of an impossible alignment is infinite, or 0 with
/// `zero_infinity`. With `outputs` the report has the output, rows first. Throws BadModel and
/// BadBatch for shapes that do not fit. Source: torch.nn.CTCLoss.
struct CTCLoss {
  std::int64_t blank = 0;      ///< index of the class for blank
  bool zero_infinity = false;  ///< an impossible alignment costs 0
  bool batch_first = false;    ///< the output is (N, T, C)
  bool outputs = false;        ///< whether the report has the model's outputs
};

template <>
struct Mechanism<CTCLoss> : ObjectiveHooks {
  using carries_out = CTCLoss;
  CTCLoss values;
  explicit Mechanism(CTCLoss v) : values(v) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    constexpr bool fits = detail::has_input_and_target<Batch> && requires(const Batch& batch) {
      Mechanism::lengths(batch.input_lengths);
      Mechanism::target_lengths(batch);
    };
    if constexpr (fits) return detail::forward_refusal<Run, Model, Batch, taken<Batch>()>();
    else return refuse::is<refuse::BatchLacksFields<CTCLoss, Batch>>{};
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    const at::Tensor output = run(model, detail::input_of(batch));
    const auto& target = detail::target_of(batch);
    const at::Tensor input_lengths = lengths(batch.input_lengths),
                     per_target = target_lengths(batch);
    check(output, detail::joined(target), input_lengths, per_target);
    const at::Tensor wide =
        output.scalar_type() == at::kDouble ? output : output.to(at::kFloat);  // no half kernels
    constexpr std::int64_t unreduced = 0;  // a macro of X11 hides at::Reduction's name
    const at::Tensor each = at::ctc_loss(values.batch_first ? wide.transpose(0, 1) : wide,
                                         detail::as_classes(detail::joined(target)), input_lengths,
                                         per_target, values.blank, unreduced, values.zero_infinity);
    const at::Tensor divisor = per_target.clamp_min(1).to(each.options(), /*non_blocking=*/true);
    const at::Tensor rows_first = values.batch_first ? output : output.transpose(0, 1);
    return {(each / divisor).sum(), each.numel(),
            values.outputs || run.evaluating ? rows_first : at::Tensor()};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return target_lengths(batch).numel();
  }
  std::string describe() const;

 private:
  /// Returns the number of fields with tensors that it takes from a batch.
  template <class Batch>
  static consteval std::size_t taken() {
    using Lengths = std::remove_cvref_t<decltype(std::declval<const Batch&>().input_lengths)>;
    std::size_t count = 2 + detail::may_hold_tensors<Lengths>;
    if constexpr (requires(const Batch& batch) { batch.target_lengths; })
      count += detail::may_hold_tensors<
          std::remove_cvref_t<decltype(std::declval<const Batch&>().target_lengths)>>;
    return count;
  }
  static const at::Tensor& lengths(const at::Tensor& all) { return all; }
  static at::Tensor lengths(const std::vector<std::int64_t>& all);
  template <class Batch>
  static at::Tensor target_lengths(const Batch& batch)
    requires(
        requires { detail::target_of(batch).lengths(); } ||
        requires { lengths(batch.target_lengths); })
  {
    if constexpr (requires { detail::target_of(batch).lengths(); })
      return lengths(detail::target_of(batch).lengths());
    else return lengths(batch.target_lengths);
  }
  void check(const at::Tensor& output, const at::Tensor& target, const at::Tensor& input_lengths,
             const at::Tensor& target_lengths) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/ctc.ipp>
#endif
