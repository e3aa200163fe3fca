#pragma once
#include <ikebana/advice/explanation.hpp>
#include <ikebana/advice/summary.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

/// A source that counts nothing, for use outside of a step.
class NoMemory final : public bridge::MemorySource {
 public:
  int64_t now() override { return 0; }

 private:
  int64_t peak_since_restart() override { return 0; }
  int64_t restart_peak() override { return 0; }
};

IKEBANA_INLINE std::string held_memory(const TrainerView& trainer) {
  try {
    NoMemory of_no_step;
    MemoryMarks marks{bridge::MemoryCounter(of_no_step), 0};
    Summary(marks, trainer).add_held({});
    std::string text = "\nThe " + marks.result.table();
    text.pop_back();
    return text;
  } catch (const std::exception&) {  // the model is not what the trainer saves any more
    return {};
  }
}

IKEBANA_INLINE std::string memory_of_step(const TrainerView& trainer, const BatchView& batch,
                                          bool failed, const std::function<void()>& step) {
  if (explanation != nullptr) return explanation(trainer, batch, failed, step);
  return held_memory(trainer) + "\n" +
         "With #include <ikebana/estimate.hpp> in a file of the program this error says what the "
         "step takes, and which policies would save how much.";
}

IKEBANA_INLINE std::string explained_peak(const TrainerView& trainer, const BatchView& batch,
                                          const std::function<void()>& step) {
  if (explanation == nullptr)
    throw Error(
        "explain_peak: the program lacks the explanation. Add #include <ikebana/estimate.hpp> to a "
        "file of it.");
  return explanation(trainer, batch, /*failed=*/false, step).substr(1);
}

}  // namespace ikebana::detail
