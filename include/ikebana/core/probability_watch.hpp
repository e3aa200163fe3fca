#pragma once
// Finds probabilities that are given to a loss which takes logits, or logarithms of probabilities.
#include <array>
#include <ikebana/detail/torch.hpp>
#include <string_view>

namespace ikebana::detail {

/// Asked about each operator of a forward before it runs. What made its input is known by name from
/// the graph, through operators that only change shape, order or dtype.
class ProbabilityWatch {
 public:
  /// Warns of the first operator of a loss that was given what it does not take.
  void check(const at::RecordFunction& function);

 private:
  using Names = std::array<std::string_view, 8>;
  struct Loss {
    std::string_view name, takes, cure;
    Names makers;  // beginnings of names of nodes

    std::string_view refuses(std::string_view maker) const;
  };
  static std::string_view text_of(std::string_view maker);
  /// A log_softmax of probabilities is part of a cross entropy that is computed in steps.
  static const Loss* loss_of(std::string_view name);
  /// The name of the node that made the values of `t`; empty where there is none.
  static std::string maker_of(const at::Tensor& t);

  bool has_warned_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/probability_watch.ipp>
#endif
