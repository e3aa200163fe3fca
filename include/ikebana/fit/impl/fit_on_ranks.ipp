#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/fit/fit_on_ranks.hpp>
#include <ikebana/fit/validation_rule.hpp>
#include <sstream>

namespace ikebana::detail {

/// Lines `name = value` of the values that must be the same on all ranks.
class FitLines {
 public:
  template <class T>
  void add(const std::string& name, const T& value) {
    text_ += name + " = " + c10::str(value) + "\n";
  }
  void add_options(const FitSettings& options) {
    add("epochs", options.max_epochs()), add("max_steps", options.max_steps.value_or(-1));
    add("batches_per_step", options.batches_per_step);
    add("validate", options.validate ? "set" : "left out");
    add("validate_every", options.validate_every);
    std::string names;
    for (const auto& metric : options.metrics) names += metric + " ";
    add("metrics", names), names.clear();
    for (const auto& metric : options.train_metrics) names += metric.name() + " ";
    add("train_metrics", names);
    add("early_stopping", options.early_stopping ? "set" : "left out");
    if (options.early_stopping) {
      add("early_stopping->patience", options.early_stopping->patience);
      add("early_stopping->min_delta", exact_text(options.early_stopping->min_delta));
    }
    add("save_to", options.save_to.empty() ? "left out" : "set");
    add("save_every", options.save_every), add("keep", options.keep);
    add("keep_best", options.keep_best ? text_of_rule(*options.keep_best) : "left out");
    add("resume", options.resume), add("save_async", options.save_async);
    add("save_on_sigterm", options.save_on_sigterm);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

[[noreturn]] inline void refuse_fit(const std::string& text) {
  throw AgreedError{std::make_exception_ptr(RanksDiffer("fit: " + text))};
}

IKEBANA_INLINE void compare_lines(const std::vector<std::string>& all, const std::string& of,
                                  const std::string& cure) {
  for (std::size_t r = 1; r < all.size(); ++r) {
    std::istringstream first(all[0]), other(all[r]);
    std::string a, b;
    while (std::getline(first, a) && std::getline(other, b))
      if (a != b)
        refuse_fit("rank 0 has " + of + " `" + a + "`, and rank " + std::to_string(r) + " has `" +
                   b + "`. " + cure);
  }
}

IKEBANA_INLINE void compare_loaders(const std::vector<std::string>& all, const std::string& which) {
  const std::string ranks = std::to_string(all.size());
  const std::string cure =
      "Give every rank a loader of the same data and options, with "
      ".num_replicas = trainer.world_size() and .rank = trainer.rank().";
  std::vector<std::string> rests;
  std::vector<std::int64_t> owner(all.size(), -1);
  const bool any = std::any_of(all.begin(), all.end(), [](const std::string& one) {
    const std::size_t space = one.find(' ');
    return space < one.find('\n') && one.compare(space, 3, " 1\n") != 0;
  });
  for (std::size_t r = 0; any && r < all.size(); ++r) {
    std::istringstream text(all[r]);
    std::int64_t part = 0, parts = 1;
    if (all[r][0] != '\n') text >> part >> parts;
    const std::string of = "the " + which + " of rank " + std::to_string(r);
    if (parts != std::ssize(all))
      refuse_fit(of + " has num_replicas " + std::to_string(parts) + ", and there are " + ranks +
                 " ranks. " + cure);
    std::int64_t& before = owner[static_cast<std::size_t>(part)];
    if (before >= 0)
      refuse_fit(of + " has .rank = " + std::to_string(part) + ", as that of rank " +
                 std::to_string(before) +
                 ": both would read the same part of each batch, and no rank another one. " + cure);
    before = static_cast<std::int64_t>(r);
    rests.push_back(all[r].substr(all[r].find('\n') + 1));
  }
  compare_lines(rests, "a " + which + " with", cure);
}

IKEBANA_INLINE void compare_fit(FitCalls& calls, const FitSettings& settings) {
  const auto ranks = calls.several_ranks();
  if (!ranks) return;
  calls.together_or_not("the options of fit", [&] {
    FitLines own;
    own.add_options(settings);
    auto of_all = [&](const std::string& text) {
      return exchange_in(ranks->data(), "the options of fit", text);
    };
    compare_lines(of_all(own.text()), "the option", "Give `fit` the same options on every rank.");
    compare_loaders(of_all(calls.lines_of_loader()), "loader");
    if (settings.validate)
      compare_loaders(of_all(calls.lines_of_validation()), "validation loader");
  });
}

}  // namespace ikebana::detail
