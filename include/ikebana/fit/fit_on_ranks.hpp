#pragma once
// What several ranks compare before `fit` trains: its options, and the loaders of which each reads
// a part.
#include <ikebana/detail/text.hpp>
#include <ikebana/fit/options.hpp>
#include <ikebana/fit/validation_rule.hpp>

namespace ikebana::detail {

/// Lines `name = value` of what all ranks must have alike.
class FitLines {
 public:
  template <class T>
  void add(const std::string& name, const T& value) {
    text_ += name + " = " + c10::str(value) + "\n";
  }
  template <class Batch>
  void add_options(const FitOptions<Batch>& options) {
    add("epochs", options.epochs), add("batches_per_step", options.batches_per_step);
    add("validate", options.validate ? "set" : "left out");
    std::string names;
    for (const auto& metric : options.metrics) names += metric.name() + " ";
    add("metrics", names);
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

/// On all ranks: none drops out.
/// Throws RanksDiffer where the lines of ranks differ, which are of `of`.
void compare_lines(const std::vector<std::string>& all, const std::string& of,
                   const std::string& cure);

/// Throws RanksDiffer where a part of the data would be read twice, and another never, or the parts
/// are of other batches. Where no loader reads a part, each rank has its own data, and may.
void compare_loaders(const std::vector<std::string>& all, const std::string& which);

/// Before the first step: all ranks compare their options, loaders and validation loaders.
template <class Trainer, class Loader, class Batch>
void compare_fit(Trainer& trainer, Loader& loader, const FitOptions<Batch>& options) {
  const auto ranks = trainer.several_ranks();
  if (!ranks) return;
  trainer.together_or_not("the options of fit", [&] {
    FitLines own;
    own.add_options(options);
    auto of_all = [&](const std::string& text) {
      return exchange_in(ranks->data(), "the options of fit", text);
    };
    compare_lines(of_all(own.text()), "the option", "Give `fit` the same options on every rank.");
    compare_loaders(of_all(lines_of_loader(loader)), "loader");
    if (options.validate) compare_loaders(of_all(options.validate.lines()), "validation loader");
  });
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit_on_ranks.ipp>
#endif
