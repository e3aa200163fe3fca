#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/loss.hpp>

namespace ikebana {

IKEBANA_INLINE bool Count::is_possible() const {
  const double items = value();
  return items >= 0 && items < 0x1p63;
}

IKEBANA_INLINE at::Tensor Count::divide(const at::Tensor& sum) const {
  if (!on_device()) return at::div(sum, items_);
  const auto type = exact_type(sum);
  const bool converts = sum.scalar_type() == type && tensor_.scalar_type() == at::kLong;
  return at::div(sum, converts ? tensor_ : tensor_.to(type));  // a division converts integers
}

IKEBANA_INLINE at::Tensor Count::gradient(const at::Tensor& sum, double scale) const {
  const auto type = sum.scalar_type();
  bool is_known = !on_device() && scale == 1;
  // An operator takes a number from the host: it need not be written to the device.
  const bool from_host = on_device() && tensor_.device() == sum.device() && !detail::recording();
  at::Tensor start =
      detail::scalar(is_known ? 1 / items_ : scale, is_known ? type : exact_type(sum),
                     from_host ? c10::Device(at::kCPU) : sum.device());
  if (!is_known) start = divide(start);
  if (start.scalar_type() != type) start = start.to(type);
  return start.sizes() == sum.sizes() ? start : start.reshape(sum.sizes());
}

IKEBANA_INLINE at::Tensor Count::tensor(const at::Tensor& like, at::ScalarType type) const {
  if (!on_device()) return detail::scalar(items_, type, like.device());
  // A copy from the host would wait for the device; making a number there does not.
  if (readable() && !like.is_cpu()) return detail::scalar(value(), type, like.device());
  return tensor_.to(like.options().dtype(type).requires_grad(false)).reshape({});
}

IKEBANA_INLINE at::Tensor Count::on_its_device() const {
  return on_device() ? tensor_.reshape({}) : at::scalar_tensor(items_, at::kDouble);
}

IKEBANA_INLINE Count& Count::operator+=(const Count& other) {
  given_ |= other.given_;
  if (!on_device() && !other.on_device()) items_ += other.items_;
  else if (on_device() && other.on_device()) tensor_ = tensor_ + other.tensor_;
  else tensor_ = on_device() ? tensor_ + other.items_ : other.tensor_ + items_;
  return *this;
}

IKEBANA_INLINE at::Tensor Count::widened(const at::Tensor& items) {
  if (!items.defined() || items.numel() != 1 || items.is_complex())
    throw BadBatch("count: expected one number, got " +
                   (items.defined() ? "a tensor of shape " + c10::str(items.sizes()) +
                                          " and dtype " + c10::toString(items.scalar_type())
                                    : std::string("an undefined tensor")) +
                   ". Sum it first: Loss{sum, mask.sum()}.");
  if (items.requires_grad())
    throw BadModel(
        "count: it requires a gradient, and none passes through it: the step divides by a number "
        "of items. Give it count.detach(); a divisor that is trained belongs into the sum: "
        "Loss{sum / divisor, n}.");
  const auto type = items.scalar_type();
  if (type == at::kLong || type == at::kFloat || type == at::kDouble) return items.detach();
  return items.detach().to(items.is_floating_point() ? at::kFloat : at::kLong);
}

IKEBANA_INLINE at::ScalarType Count::exact_type(const at::Tensor& sum) {
  return sum.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

IKEBANA_INLINE Loss Loss::mean(const at::Tensor& average, const Count& n,
                               const at::Tensor& outputs) {
  if (!average.defined() || average.numel() != 1 || average.is_complex())
    throw BadModel("Loss::mean: the mean is " +
                   (average.defined() ? "a tensor of shape " + c10::str(average.sizes()) +
                                            " and dtype " + c10::toString(average.scalar_type())
                                      : std::string("an undefined tensor")) +
                   ", not one real number. Give it Loss::mean(mean, n).");
  if (n.readable() && !(n.value() > 0 && n.is_possible()))
    throw BadBatch("Loss::mean: n is " + c10::str(n.value()) +
                   ", and a mean is over at least one item. Give the number that the mean was "
                   "divided by; where a microbatch may have no item, return Loss{sum, count}.");
  const auto type = average.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wide = average.to(type);
  return {n.on_device() ? wide * n.tensor(wide, type) : wide * n.value(), n, outputs};
}

IKEBANA_INLINE at::Tensor LossValue::mean() const {
  at::Tensor mean;
  for (const Part& part : parts) {
    at::Tensor value = part.count.divide(part.sum);
    if (part.scale != 1) value = value * part.scale;
    mean = mean.defined() ? mean + value : value;
  }
  return mean;
}

IKEBANA_INLINE bool LossValue::is_finite() const {
  for (const Part& part : parts)
    if (!std::isfinite(detail::number(part.sum))) return false;
  return true;
}

IKEBANA_INLINE at::Tensor LossValue::non_finite() const {
  at::Tensor sum;
  each_checked([&](const at::Tensor& number) { sum = sum.defined() ? sum + number : number; });
  return sum.isfinite().logical_not().to(at::kFloat);
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE std::string term_text(const std::string& name) {
  return name.empty() ? "its " : "term `" + name + "`: its ";
}

IKEBANA_INLINE void check_term(const std::string& name, const Count& count, double scale) {
  if (!count.is_given())
    throw BadModel("loss: " + term_text(name) +
                   "count is missing, by which its sum is divided. Return Loss{sum, count}, or "
                   "Loss::mean(mean, n) for a mean over n items.");
  if (!std::isfinite(scale))
    throw BadModel("loss: " + term_text(name) + "scale is " + c10::str(scale) +
                   ", and so would be every gradient. Give it a finite scale.");
  if (count.readable() && !count.is_possible())
    throw BadBatch("loss: " + term_text(name) + "count is " + c10::str(count.value()) +
                   "; it must be a number of items, from 0 to 2^63. Return the number of items "
                   "that the sum is over.");
}

IKEBANA_INLINE void check_term_names(const Loss& loss) {
  for (std::size_t i = 0; i < loss.terms.size(); ++i) {
    bool is_twice = loss.sum.defined() && loss.terms[i].name.empty();
    for (std::size_t j = 0; j < i; ++j) is_twice |= loss.terms[i].name == loss.terms[j].name;
    if (is_twice)
      throw BadModel("loss: two terms have the name `" + loss.terms[i].name +
                     "`. Give each a name of its own: reports find a term by its name.");
  }
}

IKEBANA_INLINE void check_term_count(std::size_t before, std::size_t now, const char* what) {
  if (before == 0 || now == before) return;
  throw BadModel("loss: it has " + std::to_string(now) + " terms and had " +
                 std::to_string(before) + " in the " + what +
                 " before. Return the same terms in each, also those without items.");
}

}  // namespace ikebana::detail
