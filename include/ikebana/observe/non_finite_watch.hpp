#pragma once
// Finds the operator of a step that makes the first value that is not finite.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/run/unit_nodes.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

/// Where a step is while its operators are watched.
struct WatchedPlace {
  Phase phase = Phase::Data;
  std::size_t microbatch = 0, microbatches = 0;  // the present one, from 1; how many there are
  std::int64_t rows = 0;                         // rows of the batch; 0: not known
  UnitNodes nodes = {};
};

/// The worst kind of value that a tensor has.
enum class Badness { Finite, Infinite, NaN };
/// Returns the worst of a tensor's values.
Badness badness(const at::Tensor& t);

/// Sees every operator of one step, and finds the first one that makes a NaN of arguments without
/// NaN, and the first one that makes an infinity of finite arguments. So a mask of infinities that
/// a model fills in does not count. It reads every argument and result, so the step takes some
/// times as long.
class NonFiniteWatch : public bridge::OperatorMode {
 public:
  NonFiniteWatch(const UnitTable& units, const WatchedPlace& place)
      : units_(units), place_(place) {}

  /// Returns what was found, as sentences that follow an error, after a digit that says how near
  /// to its origin that is: `found_on_ranks` reads it.
  std::string finding() const;
  /// Returns true if an operator made a value that is not finite of finite arguments.
  bool has_made() const { return first_made_in_.has_value(); }
  /// Says which values of a tensor are not finite, and in which rows.
  std::string values_text(const at::Tensor& t) const;

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

 private:
  /// A tensor argument, and how bad it was before the call, if the call writes to it.
  struct Argument {
    at::Tensor tensor;
    std::optional<Badness> before = {};
  };
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  std::vector<Argument> arguments_of(const bridge::OperatorCall& call) const;
  void look_at(const bridge::OperatorCall& call, const std::vector<Argument>& arguments,
               Badness of_numbers);
  /// Returns the worst of the arguments. Notes one that no operator has made bad.
  Badness worst(const bridge::OperatorCall& call, const std::vector<Argument>& arguments);
  void note(const bridge::OperatorCall& call, const std::vector<Argument>& arguments,
            const at::Tensor& result);
  /// Notes an argument that is bad although no operator has made it so.
  void note_unknown(const bridge::OperatorCall& call, const at::Tensor& argument);
  bool is_known(const at::Tensor& t) const;
  void remember(const at::Tensor& t);
  std::string text() const;
  std::string place_text() const;
  /// Returns the indices along dimension 0 as rows of the batch, if they are such.
  std::string rows_text(const at::Tensor& bad) const;

  const UnitTable& units_;
  const WatchedPlace& place_;
  std::optional<std::string> first_nan_, first_infinity_, first_unknown_;
  std::optional<Phase> first_made_in_;
  std::unordered_map<const c10::StorageImpl*, WeakStorage> known_;  // the memory that is bad
};

/// Returns what ranks say of a step after an error that all have; no value if all say nothing. Each
/// says nothing, or `!` and sentences about its batch and its parameters.
std::optional<std::string> given_on_ranks(const std::vector<std::string>& ranks);
/// Returns what the ranks nearest to the origin have found, of the `finding` of each rank: a value
/// that an operator made in forward before one that was made in backward, and one that a rank has
/// received last.
std::string found_on_ranks(const std::vector<std::string>& ranks);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/non_finite_watch.ipp>
#endif
