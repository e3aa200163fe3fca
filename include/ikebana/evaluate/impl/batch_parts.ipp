#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/batch_parts.hpp>

namespace ikebana::detail {

IKEBANA_INLINE PartLosses::PartLosses() = default;
IKEBANA_INLINE PartLosses::~PartLosses() = default;
IKEBANA_INLINE void PartLosses::clear() { all_.clear(); }

IKEBANA_INLINE void PartLosses::add(Loss loss, bool keeps_outputs) {
  if (!keeps_outputs) loss.outputs.reset();
  all_.push_back(std::move(loss));
}

IKEBANA_INLINE void PartLosses::add_to(LossSums& sums) const {
  for (const Loss& loss : all_) sums.add(loss);
}

IKEBANA_INLINE at::Tensor PartLosses::outputs() const {
  if (all_.size() == 1) return all_[0].outputs;
  std::vector<at::Tensor> parts;
  for (const Loss& loss : all_)
    if (loss.outputs.defined()) parts.push_back(loss.outputs);
  if (parts.empty()) return {};
  for (const at::Tensor& part : parts)
    if (part.dim() == 0 || parts.size() != all_.size() ||
        part.sizes().slice(1) != parts[0].sizes().slice(1))
      throw BadModel(
          "evaluate: memory ran out, so a batch was computed in parts, and their Loss::outputs "
          "of shapes " +
          c10::str(parts[0].sizes()) + " and " + c10::str(part.sizes()) +
          " cannot be joined along dimension 0, where the rows of a batch are to be. Let the "
          "loss return such outputs, or evaluate smaller batches.");
  return at::cat(parts);
}

}  // namespace ikebana::detail
