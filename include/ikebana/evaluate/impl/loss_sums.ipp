#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/loss_sums.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE void LossSums::add(const Loss& loss) {
  const std::size_t before = sums_.size();
  if (before == 0) check_term_names(loss);
  std::size_t i = 0;
  each_term(loss, [&](const std::string& name, const at::Tensor& sum, const Count& count,
                      double scale) { add(i++, name, sum, count, scale); });
  check_term_count(before, i, "batch");
}

IKEBANA_INLINE std::string LossSums::terms() const {
  std::ostringstream text;
  for (const Sum& s : sums_) {
    std::uint64_t scale = 0;
    std::memcpy(&scale, &s.scale, sizeof scale);
    text << s.name.size() << ' ' << s.name << scale << ' ';
  }
  return text.str();
}

IKEBANA_INLINE void LossSums::take_terms(const std::string& others, c10::Device device) {
  if (const std::string own = terms(); !own.empty()) {
    if (own == others) return;
    throw BadModel(
        "evaluate: the loss of this rank has other terms, or other scales, than that of another "
        "one. Return the same terms on all ranks.");
  }
  std::istringstream text(others);
  std::size_t length = 0;
  while (text >> length) {
    std::uint64_t bits = 0;
    std::string name(length, '\0');
    text.ignore().read(name.data(), static_cast<std::streamsize>(length)) >> bits;
    double scale = 0;
    std::memcpy(&scale, &bits, sizeof scale);
    sums_.push_back({name, at::zeros({}, at::TensorOptions(device).dtype(at::kDouble)), 0, scale});
  }
}

IKEBANA_INLINE void LossSums::sum_over(RankGroup& ranks) {
  if (sums_.empty()) return;  // this is so on all ranks
  std::vector<at::Tensor> all;
  for (const Sum& s : sums_)
    all.push_back(s.sum.reshape({})), all.push_back(s.count.tensor(s.sum, at::kDouble));
  ranks.sum(all);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i].sum = all[2 * i], sums_[i].count = all[2 * i + 1];
}

IKEBANA_INLINE double LossSums::mean() const {
  double mean = 0;
  for (const Sum& s : sums_) {
    if (!(s.count.value() > 0))
      throw BadBatch("evaluate: " + term_text(s.name) + "count is " + c10::str(s.count.value()) +
                     " over all batches. Evaluate batches with items of each term.");
    mean += s.scale * s.sum.item<double>() / s.count.value();
  }
  return mean;
}

IKEBANA_INLINE void LossSums::add(std::size_t i, const std::string& name, const at::Tensor& sum,
                                  const Count& count, double scale) {
  if (i == sums_.size()) return sums_.push_back({name, sum.to(at::kDouble), count, scale});
  if (sums_[i].name != name || sums_[i].scale != scale)
    throw BadModel("evaluate: term " + std::to_string(i) + " is `" + name + "` with scale " +
                   c10::str(scale) + ", and was `" + sums_[i].name + "` with scale " +
                   c10::str(sums_[i].scale) +
                   " in a batch before. Return the same terms for all batches.");
  sums_[i].sum = sums_[i].sum + sum.to(at::kDouble);
  sums_[i].count += count;
}

}  // namespace ikebana::detail
