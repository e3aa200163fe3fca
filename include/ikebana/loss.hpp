#pragma once
// Defines the result of a model's loss: a sum and the number of items that it is over. Only the
// step divides.
#include <ikebana/detail/number.hpp>
#include <ikebana/error.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// The number of items that a sum is over: on the host, or a one-element tensor on the device.
/// Costs nothing on the host; on a device, additions and the division are done there. Tensors of
/// narrow dtypes (Bool, Byte, Half and so on) are kept as Long or Float, in which their sums fit.
class Count {
 public:
  Count() = default;  ///< no count was given; as a number, 0
  /// Takes a number on the host, or a one-element tensor, which may be on a device. Throws BadBatch
  /// for a tensor that is not one real number, and BadModel for one that requires a gradient. A
  /// step divides by a count after backward has begun, so the count gets no gradient.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Count(Number items) : given_(true), items_(static_cast<double>(items)) {}
  Count(const at::Tensor& items) : given_(true), tensor_(widened(items)) {}

  /// Returns false if no count was given.
  bool is_given() const { return given_; }
  /// Returns true if it is a tensor.
  bool on_device() const { return tensor_.defined(); }
  /// Returns true if `value()` does not wait for a device.
  bool readable() const { return !on_device() || detail::readable(tensor_); }
  /// Returns the number. Waits for the device if it is a tensor on one.
  double value() const { return on_device() ? detail::number(tensor_) : items_; }
  /// Returns false for a number that counts no items: below 0, NaN, or 2^63 and above.
  bool is_possible() const;
  /// Returns `sum` divided by this count, on the device of the sum.
  at::Tensor divide(const at::Tensor& sum) const;
  /// Returns the gradient of `sum` that backward starts with, scale / count, in the dtype and shape
  /// of the sum. So dividing the loss takes no operator.
  at::Tensor gradient(const at::Tensor& sum, double scale) const;
  /// Returns the count as a one-element tensor on the device of `like`.
  at::Tensor tensor(const at::Tensor& like, at::ScalarType type = at::kFloat) const;
  /// Returns a count of 0, which is a number or a tensor, like this one.
  Count zero() const { return on_device() ? Count(at::zeros_like(tensor_)) : Count(0); }
  /// Returns the count as a one-element tensor on its own device; on the host, if it is a number.
  at::Tensor on_its_device() const;
  /// Adds another count. If both are on the host, the sum is, too; otherwise it is a tensor.
  Count& operator+=(const Count& other);
  friend bool same(const Count& a, const Count& b) {
    if (a.on_device() && b.on_device() && a.tensor_.is_same(b.tensor_)) return true;
    return a.readable() && b.readable() && a.value() == b.value();
  }

 private:
  static at::Tensor widened(const at::Tensor& items);
  /// Returns the dtype in which `sum` is divided. A count of 70000 is infinite in Half.
  static at::ScalarType exact_type(const at::Tensor& sum);

  bool given_ = false;
  double items_ = 0;
  at::Tensor tensor_;
};

/// A named part of a loss: it adds `scale * sum / count` to what is minimised. `scale` must be
/// finite.
struct Term {
  std::string name;  ///< the name in reports; each term has another one
  at::Tensor sum;    ///< differentiable, one element
  Count count;       ///< what it is divided by
  double scale = 1;  ///< its weight in the loss; finite
};

/// The loss of one microbatch: a differentiable one-element sum and the number of items it sums
/// over (tokens, rows, pixels; masked items not counted). `outputs` (rows first) come back in the
/// report; `terms` are further parts. No code before the step divides, so that microbatches are
/// weighted correctly.
struct Loss {
  at::Tensor sum = {};           ///< differentiable, one element; undefined if `terms` are all
  Count count = {};              ///< items that the sum is over
  at::Tensor outputs = {};       ///< (rows, ...): for metrics and Report::outputs
  std::vector<Term> terms = {};  ///< further parts of the loss, each with a name of its own

  /// Returns the loss whose mean over `n` items is `average`, such as `F::cross_entropy` returns.
  /// Its sum is `average * n`, in single precision at least. `n` must be what the mean was divided
  /// by: the targets that are not ignored, the sum of the weights. Costs one multiplication, which
  /// rounds. Throws BadModel for what is not one real number, and BadBatch for an `n` that is not
  /// above 0, because a mean over nothing is NaN.
  static Loss mean(const at::Tensor& average, const Count& n, const at::Tensor& outputs = {});
};

/// The value of a whole step's loss, undivided. It is divided when it is read, so that a step whose
/// loss is not read divides nothing.
class LossValue {
 public:
  /// A term over all microbatches: it adds `scale * sum / count`.
  struct Part : Term {
    at::Tensor seed = {};  ///< the gradient that backward started with, if it was divided by then
  };

  /// Returns the sum of every part's scale * sum / count, as one number on the device.
  at::Tensor mean() const;
  /// Returns true if `is_finite()` does not wait for a device.
  bool readable() const { return detail::readable(parts[0].sum); }
  /// Returns true if the sum of every term is finite. Waits for the device.
  bool is_finite() const;
  /// Returns one float on the device, which is 1 if the value is not finite. It is also 1 if a
  /// count is 0 there.
  at::Tensor non_finite() const;
  /// Calls `f` with the numbers that are all finite if the value is.
  template <class F>
  void each_checked(const F& f) const {
    for (const Part& part : parts) {
      const bool is_checked = part.count.readable();  // before backward
      f(is_checked || part.seed.defined() ? part.sum : part.count.divide(part.sum));
      if (!is_checked && part.seed.defined()) f(part.seed);  // scale / count
    }
  }

  c10::SmallVector<Part, 1> parts;  ///< the terms; the loss's own is the first
  std::string where;  ///< on which of several ranks it is not finite, as " on rank 1", if known
};

namespace detail {
std::string term_text(const std::string& name);
void check_term(const std::string& name, const Count& count, double scale);
/// Calls `f(name, sum, count, scale)` for every term, the unnamed one first. Throws BadModel for a
/// loss without a term or a scale that is not finite, and BadBatch for an impossible count.
template <class F>
void each_term(const Loss& loss, F&& f) {
  if (!loss.sum.defined() && loss.terms.empty())
    throw BadModel("loss: it is empty. Return ikebana::Loss{sum, count}.");
  if (loss.sum.defined()) {
    const std::string unnamed;
    check_term(unnamed, loss.count, 1);
    f(unnamed, loss.sum, loss.count, 1.0);
  }
  for (const Term& term : loss.terms) {
    check_term(term.name, term.count, term.scale);
    f(term.name, term.sum, term.count, term.scale);
  }
}
/// Throws BadModel if two terms of a loss have one name, by which reports find them. The loss's
/// own sum has the empty name.
void check_term_names(const Loss& loss);
/// Throws BadModel if a loss has another number of terms than the loss before, of a microbatch or a
/// batch (`what`); `before` is 0 for the first loss.
void check_term_count(std::size_t before, std::size_t now, const char* what);
}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/impl/loss.ipp>
#endif
