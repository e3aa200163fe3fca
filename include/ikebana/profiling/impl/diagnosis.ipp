#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/profiling/diagnosis.hpp>
#include <ikebana/profiling/profile_answers.hpp>
#include <ikebana/profiling/report_numbers.hpp>

namespace ikebana::detail {

/// The least part of a step's time that advice must be expected to save. Less than that is within
/// the noise of most machines.
inline constexpr double least_gain = 0.05;

/// The rules, each of which adds at most one piece of advice.
class Diagnosis {
 public:
  Diagnosis(const RunProfile& profile, const TrainingFacts& facts)
      : p_(profile), f_(facts), is_cpu_(on_cpu(profile)) {
    for (const ProfileRow& row : p_.operators) {
      if (!is_operator(row)) continue;
      const double seconds = own_microseconds(row, is_cpu_) / 1e6;
      all_operators_ += seconds;
      if (is_copy(row.key)) copies_ += seconds;
      if (row.key == "aten::copy_") copy_calls_ += row.count;  // most others call it
    }
    for (const RooflinePoint& o : p_.roofline.operators) add_limit(o);
  }

  std::vector<Advice> advice() {
    data(), epoch_starts(), threads(), waiting_policy(), denormals(), host_reads(), alignment();
    small_operators(), copies(), precision(), communication(), build(), vector_code();
    std::stable_sort(found_.begin(), found_.end(), [](const Advice& a, const Advice& b) {
      return a.expected_gain.value_or(0) > b.expected_gain.value_or(0);
    });
    return std::move(found_);
  }

  std::string bound() const {
    if (p_.share_of_data() >= 0.3) return "data";
    if (share_of_ranks() >= 0.3) return "communication";
    if (idle_device() > 0.3) return "the host, for which the device waits";
    if (by_products_ + by_memory_ + by_calls_ == 0) return "";
    if (by_calls_ >= std::max(by_products_, by_memory_)) return "the cost of calling operators";
    return by_products_ >= by_memory_ ? "matrix products" : "memory bandwidth";
  }

 private:
  void add_limit(const RooflinePoint& o) {
    if (o.flops > 0) products_ += o.seconds * static_cast<double>(steps());
    const RooflineLimit limit = o.limit(p_.roofline.bounds);
    if (limit == RooflineLimit::Products) by_products_ += o.seconds;
    else if (limit == RooflineLimit::Overhead) by_calls_ += o.seconds;
    else if (limit != RooflineLimit::Unknown) by_memory_ += o.seconds;
  }
  double share_of_operators(double seconds) const {
    return all_operators_ > 0 ? seconds / all_operators_ : 0;
  }
  std::int64_t steps() const { return std::max<std::int64_t>(1, p_.profile.steps); }
  double share_of_ranks() const { return p_.phases.share("gather") + p_.phases.share("reduce"); }
  /// Returns the time of a step without waiting for its batch.
  double compute() const { return std::max(1e-9, p_.step.mean - p_.waiting.mean); }
  /// Returns the part of the step that calls of operators take, at least.
  double share_of_launches() const {
    return std::min(1.0, static_cast<double>(f_.traits.operators) * f_.launch_seconds /
                             std::max(p_.step.mean, 1e-9));
  }
  /// Returns the part of the step in which an accelerator computes nothing, data aside. A profiler
  /// slows the host down, but hardly the kernels, so it is the kernels' time in a step of the
  /// baseline.
  double idle_device() const {
    if (is_cpu_ || all_operators_ == 0) return 0;
    return std::max(0.0, 1 - all_operators_ / static_cast<double>(steps()) / compute());
  }
  void add(Advice advice) {
    if (advice.expected_gain.value_or(1) >= least_gain) found_.push_back(std::move(advice));
  }

  void data() {
    const double share = p_.share_of_data();
    if (share - share_of_epoch_starts() < 0.1) return;
    Advice advice{.name = "data", .finding = "waits for data " + percent(share) + " of the step"};
    advice.evidence = "a step takes " + duration_text(p_.step.mean) + ", of which it waits " +
                      duration_text(p_.waiting.mean) + " for its batch";
    if (!f_.is_data_loader) {
      advice.change = "read batches in other threads: DataLoader{dataset, {.num_workers = 2}}";
      advice.expected_gain = std::min(share, 1 - compute() / p_.step.mean);
    } else {
      advise_workers(advice);
    }
    add(std::move(advice));
  }
  /// Returns the part of the step that persistent workers would save, since they have read the
  /// first batches of an epoch before it begins.
  double share_of_epoch_starts() const {
    const bool can_stay = f_.is_data_loader && f_.num_workers > 0 && !f_.persistent_workers;
    return can_stay ? f_.epoch_starts / std::max(1e-9, p_.step.mean) : 0;
  }
  void epoch_starts() {
    const double share = share_of_epoch_starts();
    if (share < least_gain) return;
    add({.name = "persistent_workers",
         .finding = "waits " + percent(share) + " of the step for the first batches of epochs",
         .evidence = "workers begin with an epoch, and the loop waits for their first batches; a "
                     "step takes " +
                     duration_text(p_.step.mean) + ", of which this is " +
                     duration_text(f_.epoch_starts),
         .change = ".persistent_workers = true: workers read on at the end of an epoch",
         .expected_gain = share,
         .value = f_.num_workers});
  }
  /// Each of `num_workers` workers makes a batch in that many steps. Without one, the loop itself
  /// makes it while it waits.
  void advise_workers(Advice& advice) const {
    const std::int64_t workers = f_.num_workers;
    const double batch = workers == 0 ? p_.waiting.mean
                                      : (p_.step.mean - share_of_epoch_starts() * p_.step.mean) *
                                            static_cast<double>(workers);
    const auto needed = static_cast<std::int64_t>(std::ceil(1.1 * batch / compute() - 1e-9));
    // Workers that mostly wait, for a disk or a network, need no core each.
    const std::int64_t cores = p_.conditions.cores;
    const std::int64_t most =
        f_.has_idle_cores ? 4 * cores : std::max<std::int64_t>(1, cores - (is_cpu_ ? 1 : 0));
    const std::int64_t asked = std::clamp<std::int64_t>(needed, 1, most);
    advice.evidence += "; one thread makes a batch in " + duration_text(batch) + ", so " +
                       std::to_string(needed) + " would keep up with it, on " +
                       std::to_string(cores) + " cores" +
                       (f_.has_idle_cores ? ", which are idle meanwhile" : "");
    if (asked <= workers) {
      advice.change =
          "make a batch cheaper: decode and resize once and store the result, read a whole batch "
          "with get_batch, or augment on the device; more workers than cores make it slower";
      return;
    }
    advice.value = asked;
    advice.change = "num_workers " + std::to_string(workers) + " -> " + std::to_string(asked);
    const double period = std::max(compute(), batch / static_cast<double>(asked));
    advice.expected_gain = 1 - period / p_.step.mean;
  }

  void threads() {
    const std::int64_t threads = p_.conditions.threads, cores = p_.conditions.cores;
    // Each of several ranks has its part of the cores.
    if (!is_cpu_ || cores == 0 || threads == cores || f_.ranks > 1) return;
    const double speedup = f_.all_cores_speedup;
    Advice advice{.name = "threads",
                  .finding = std::to_string(threads) +
                             (threads == 1 ? " thread on " : " threads on ") +
                             std::to_string(cores) + " cores",
                  .evidence = "with " + std::to_string(cores) +
                              " threads a product of 1024 x 1024 "
                              "matrices has " +
                              rounded(speedup) + " times the speed",
                  .change = "at::set_num_threads(" + std::to_string(cores) +
                            "), or OMP_NUM_THREADS=" + std::to_string(cores) +
                            "; with several programs or ranks on these cores, their part of them",
                  .value = cores};
    advice.expected_gain =
        share_of_operators(products_) * (1 - 1 / std::max(1.0, speedup)) * compute() / p_.step.mean;
    if (threads > cores) advice.expected_gain = std::max(*advice.expected_gain, least_gain);
    add(std::move(advice));
  }

  void waiting_policy() {
    const double share = f_.share_without_processor;
    if (!is_cpu_ || p_.conditions.threads < 2 || share < 0.1) return;
    for (const auto& [name, value] : p_.conditions.environment)
      if (name == "OMP_WAIT_POLICY" || name == "GOMP_SPINCOUNT" || name == "KMP_BLOCKTIME") return;
    add({.name = "waiting_policy",
         .finding = "threads of OpenMP, which spin while they wait, compete for the processors",
         .evidence = "in " + percent(share) +
                     " of the step its thread could have run and had no "
                     "processor; the others of its " +
                     std::to_string(p_.conditions.threads) + " threads wait for it then",
         .change = "fewer threads, at::set_num_threads(" +
                   std::to_string(p_.conditions.threads - 1) +
                   "); or start the program with OMP_WAIT_POLICY=passive",
         .expected_gain = share});
  }

  void denormals() {
    const StepTraits& t = f_.traits;
    const auto threads = static_cast<double>(std::max<std::int64_t>(1, p_.conditions.threads));
    const double gain =
        t.denormal_operations * f_.denormal_seconds / threads / std::max(1e-9, p_.step.mean);
    if (!is_cpu_ || p_.conditions.flushes_denormals || gain < least_gain) return;
    add({.name = "denormals",
         .finding = percent(static_cast<double>(t.denormals) /
                            static_cast<double>(std::max<std::int64_t>(1, t.numbers))) +
                    " of the numbers that operators return are denormal",
         .evidence = std::to_string(t.denormals) + " of " + std::to_string(t.numbers) +
                     " numbers of a step are smaller than 1.2e-38 and not 0; here an operator "
                     "takes " +
                     rounded(1e9 * f_.denormal_seconds) + " ns longer for each",
         .change = "begin main with at::globalContext().setFlushDenormal(true): they become 0",
         .expected_gain = std::min(0.95, gain)});
  }

  void host_reads() {
    if (is_cpu_ || f_.traits.host_reads == 0) return;
    add({.name = "host_reads",
         .finding = "the host reads a tensor of the device in each step",
         .evidence = std::to_string(f_.traits.host_reads) +
                     " calls of item(), nonzero() or a boolean mask in a step; the host waits "
                     "in each until the device has computed all before",
         .change = "keep the value as a tensor, or read it every 50th step"});
  }

  void alignment() {
    if (!f_.unaligned) return;
    const auto& u = *f_.unaligned;
    const double saved = 1 - u.padded_seconds / u.seconds;
    auto size = [&](std::int64_t k, std::int64_t n) {
      return std::to_string(u.shape.m) + " x " + std::to_string(k) + " by " + std::to_string(k) +
             " x " + std::to_string(n);
    };
    if (saved < 0.1) return;
    add({.name = "alignment",
         .finding = "a matrix product has sizes that are not multiples of 8",
         .evidence = "a product of " + size(u.shape.k, u.shape.n) + " takes " +
                     duration_text(u.seconds) + ", of " + size(u.padded_k, u.padded_n) + " " +
                     duration_text(u.padded_seconds),
         .change = "round layers and the vocabulary up to a multiple of 8 or 64",
         .expected_gain = saved * u.seconds * static_cast<double>(u.shape.calls) / p_.step.mean});
  }

  void small_operators() {
    const double all = by_products_ + by_memory_ + by_calls_;
    const auto calls = static_cast<double>(f_.traits.operators);
    if (f_.captures || all == 0) return;
    if (idle_device() > 0.3)
      add({.name = "small_operators",
           .finding = "the device waits for the host " + percent(idle_device()) + " of the step",
           .evidence = "kernels take " +
                       duration_text(all_operators_ / static_cast<double>(steps())) + " of " +
                       duration_text(compute()) + "; the host calls " +
                       std::to_string(f_.traits.operators) + " operators, " +
                       duration_text(compute() / calls) + " each",
           .change = "Capture<WholeStep>{} in the recipe, which replays a step as a graph "
                     "(docs/capture.md); or a larger batch",
           .expected_gain = idle_device()});
    if (!is_cpu_ || by_calls_ < 0.5 * all) return;
    add({.name = "small_operators",
         .finding = "many small operators: " + percent(by_calls_ / all) +
                    " of their time is in calls too short for their arithmetic to matter",
         .evidence = std::to_string(f_.traits.operators) + " operators in " +
                     duration_text(compute()) + ", " + duration_text(compute() / calls) +
                     " each; on one number it would take " + duration_text(f_.launch_seconds),
         .change = "a larger batch; or Capture<WholeStep>{} in the recipe, which replays a step "
                   "without these calls (docs/capture.md)",
         .expected_gain = share_of_launches()});
  }

  void copies() {
    const double share = share_of_operators(copies_);
    if (share < 0.4) return;
    add({.name = "copies",
         .finding = "copies take " + percent(share) + " of the time of operators",
         .evidence = std::to_string(copy_calls_ / steps()) + " copies in a step, " +
                     duration_text(copies_ / static_cast<double>(steps())),
         .change = "leave out contiguous(), clone() and to() in forward; keep one dtype and one "
                   "memory format from the input to the loss",
         .expected_gain = share * compute() / p_.step.mean / 2});
  }

  void precision() {
    if (!is_cpu_ || p_.roofline.bounds.matmul.empty()) return;
    at::ScalarType used = at::kFloat;
    std::int64_t most = 0;
    for (const RooflinePoint& o : p_.roofline.operators)
      if (o.flops > most) most = o.flops, used = o.dtype;
    const double ratio = f_.bfloat16_speedup, share = share_of_operators(products_);
    if (used == at::kBFloat16 && !f_.has_bfloat16)
      add({.name = "precision",
           .finding = "this processor has no instructions for BF16",
           .evidence = "products in BF16 are converted and computed in FP32; copies, with these "
                       "conversions, take " +
                       percent(share_of_operators(copies_)) + " of the time of operators",
           .change = "leave Precision<BF16> out of the recipe on this machine",
           .expected_gain = share_of_operators(copies_) * compute() / p_.step.mean});
    if (used == at::kFloat && most > 0 && f_.has_bfloat16 && ratio > 1.5 && !f_.has_precision)
      add({.name = "precision",
           .finding = "this processor multiplies BF16 faster than FP32",
           .evidence = "products take " + percent(share) +
                       " of the time of operators; of 1024 x "
                       "1024 matrices they have " +
                       rounded(ratio) + " times the speed in BF16",
           .change = "Precision<BF16>{} in the recipe",
           .expected_gain = share * compute() / p_.step.mean * (1 - 1 / ratio)});
  }

  void communication() {
    const double share = share_of_ranks();
    if (f_.ranks < 2 || share < 0.2) return;
    add({.name = "communication",
         .finding =
             "waits for other ranks, and exchanges with them, " + percent(share) + " of the step",
         .evidence = "gather " + percent(p_.phases.share("gather")) + ", reduce " +
                     percent(p_.phases.share("reduce")) + ", on " + std::to_string(f_.ranks) +
                     " ranks",
         .change = "Accumulate<4> with batches four times as large: gradients are exchanged once "
                   "for four microbatches",
         .expected_gain = 0.75 * p_.phases.share("reduce")});
  }

  void build() {
    if (p_.conditions.is_optimized) return;
    add({.name = "debug_build",
         .finding = "the program was compiled without optimisation",
         .evidence = p_.conditions.compiler + (p_.conditions.has_assertions ? ", no -DNDEBUG" : ""),
         .change = "cmake -DCMAKE_BUILD_TYPE=Release"});
  }

  void vector_code() {
    if (!is_cpu_) return;
    const auto& sets = p_.conditions.instruction_sets;
    auto has = [&](const char* name) {
      return std::find(sets.begin(), sets.end(), name) != sets.end();
    };
    const std::string& used = p_.conditions.vector_code;
    const bool less = (used == "DEFAULT" && has("avx2")) ||
                      (used == "AVX2" && has("avx512bw") && is_set("ATEN_CPU_CAPABILITY"));
    const bool less_in_products = is_set("ONEDNN_MAX_CPU_ISA") || is_set("DNNL_MAX_CPU_ISA") ||
                                  is_set("MKL_ENABLE_INSTRUCTIONS");
    if (!less && !less_in_products) return;
    const std::string settings = settings_of_vector_code();
    add({.name = "vector_code",
         .finding = "vector instructions that this processor has are not used",
         .evidence = "LibTorch uses " + used + settings,
         .change = settings.empty() ? "a build of LibTorch for this processor"
                                    : "unset the variable on this machine"});
  }
  bool is_set(const std::string& variable) const {
    for (const auto& [name, value] : p_.conditions.environment)
      if (name == variable) return true;
    return false;
  }
  std::string settings_of_vector_code() const {
    std::string all;
    for (const auto& [name, value] : p_.conditions.environment)
      if (name.find("ISA") != std::string::npos || name == "ATEN_CPU_CAPABILITY" ||
          name == "MKL_ENABLE_INSTRUCTIONS")
        all += ", " + name + "=" + value;
    return all;
  }

  const RunProfile& p_;
  const TrainingFacts& f_;
  const bool is_cpu_;
  double all_operators_ = 0, copies_ = 0, products_ = 0;   // seconds of the profiled steps
  double by_products_ = 0, by_memory_ = 0, by_calls_ = 0;  // seconds of a step, by their limit
  std::int64_t copy_calls_ = 0;
  std::vector<Advice> found_;
};

IKEBANA_INLINE std::string bound_of(const RunProfile& profile, const TrainingFacts& facts) {
  return Diagnosis(profile, facts).bound();
}

IKEBANA_INLINE std::vector<Advice> diagnose(const RunProfile& profile, const TrainingFacts& facts) {
  return Diagnosis(profile, facts).advice();
}

}  // namespace ikebana::detail
