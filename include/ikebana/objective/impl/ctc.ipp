#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/ctc.hpp>

namespace ikebana {

IKEBANA_INLINE std::string Mechanism<CTCLoss>::describe() const {
  return "blank=" + std::to_string(values.blank) + (values.zero_infinity ? ", zero_infinity" : "") +
         (values.batch_first ? ", batch_first" : "");
}

IKEBANA_INLINE at::Tensor Mechanism<CTCLoss>::lengths(const std::vector<std::int64_t>& all) {
  if (detail::recording())
    throw BadValue(
        "CTCLoss: the step is recorded, and the lengths of samples are read on the host: each "
        "replay would use those of the recorded batch. Make steps with it without Capture.");
  return at::tensor(all, at::kLong);
}

IKEBANA_INLINE void Mechanism<CTCLoss>::check(const at::Tensor& output, const at::Tensor& target,
                                              const at::Tensor& input_lengths,
                                              const at::Tensor& target_lengths) const {
  const std::int64_t n = target_lengths.numel();
  if (output.dim() != 3 || output.size(values.batch_first ? 0 : 1) != n)
    throw BadModel("CTCLoss: the output has shape " + c10::str(output.sizes()) + ", for " +
                   std::to_string(n) + " samples. Return log-probabilities of shape " +
                   (values.batch_first ? "(samples, time, classes)."
                                       : "(time, samples, classes), or with CTCLoss{.batch_first "
                                         "= true} (samples, time, classes)."));
  if (values.blank < 0 || values.blank >= output.size(2))
    throw BadValue("CTCLoss: blank is " + std::to_string(values.blank) + ", and there are " +
                   std::to_string(output.size(2)) + " classes. Give it one of them, from 0.");
  for (const at::Tensor* t : {&input_lengths, &target_lengths})
    if (t->dim() != 1 || t->numel() != n || !at::isIntegralType(t->scalar_type(), false))
      throw BadBatch("CTCLoss: lengths are " + detail::tensors_text(*t) + ", for " +
                     std::to_string(n) + " samples. Give each sample one integer.");
  if (target.is_floating_point() || (target.dim() == 2 && target.size(0) != n) || target.dim() > 2)
    throw BadBatch("CTCLoss: the target is " + detail::tensors_text(target) + ", for " +
                   std::to_string(n) +
                   " samples. Give it classes of shape (samples, longest target), or a Ragged.");
}

}  // namespace ikebana
