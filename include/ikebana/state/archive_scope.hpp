#pragma once
// Where the parts of a state are while they list their tensors: in which section of names, and of
// which rows of whole tensors, of which each of several ranks has some.
#include <ikebana/detail/slice.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// Which rows of whole tensors those of a state are, by name. Tensors that are not in it are no
/// rows: a rank may have its own, such as its random generators.
using StateRows = std::map<std::string, Slice>;

/// The base of `Archive`.
class ArchiveScope {
 public:
  /// How the names of all begin that is not the model's.
  static constexpr const char* reserved_prefix = "ikebana.";
  /// How the sections of parts beside the trainer begin.
  static constexpr const char* parts_prefix = "parts.";
  /// How the names of trained weights begin where the state has averaged ones.
  static constexpr const char* trained_prefix = "ikebana.trained.";

  /// Names from here on are the model's own.
  void begin_model() { prefix_.clear(); }
  /// Names from here on begin with `ikebana.<section>.`.
  void begin_section(const std::string& section) { prefix_ = reserved_prefix + section + "."; }
  /// The same, for the section of one of the trainer's policies.
  void begin_policy(const std::string& name);
  /// Within `f`, names also begin with `<name>.`: a part of a part.
  template <class F>
  void within(const std::string& name, F&& f) {
    const std::string before = std::exchange(prefix_, prefix_ + name + ".");
    f();
    prefix_ = before;
  }
  /// The tensors that `f` lists are these rows of whole ones, which all ranks have together. Where
  /// the rows are all of them, every rank has the same tensor.
  template <class F>
  void rows_of(const Slice& slice, F&& f) {
    const Slice* before = std::exchange(slice_, &slice);
    f();
    slice_ = before;
  }
  /// The same of the slice of that index, as of `Masters::slices`; where there are none, the
  /// tensors are no rows.
  template <class F>
  void rows_of(const std::vector<Slice>& slices, std::size_t i, F&& f) {
    if (slices.empty()) f();
    else rows_of(slices[i], f);
  }
  /// True for a state in files, of which each rank reads the rows that it needs. False for one in
  /// memory, which fits the rank that it comes from.
  bool notes_rows() const { return rows_ != nullptr; }

 protected:
  explicit ArchiveScope(StateRows* rows) : rows_(rows) {}

  void note_rows(const std::string& full_name);
  void move_rows(const std::string& from, const std::string& to);
  /// The sizes of the whole of a tensor of which the trainer has `sizes`.
  at::IntArrayRef whole_sizes(at::IntArrayRef sizes) const;
  /// The sizes of the whole of a tensor of which `sizes` were read.
  at::IntArrayRef read_sizes(const std::string& full_name, at::IntArrayRef sizes) const;

  std::string prefix_;
  std::vector<std::string> policies_;

 private:
  StateRows* rows_;
  const Slice* slice_ = nullptr;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/archive_scope.ipp>
#endif
