#pragma once
// Defines a recorded step: its operators in their order, and the memory that they use.
#include <ikebana/detail/torch.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

/// The use of some memory of a recorded step.
enum class MemoryUse {
  Made,       ///< operators of the step make it: a replay has it in its arena
  GivenAway,  ///< operators of the step make it, and it outlives the step: each replay allocates it
  Given,      ///< the batch, a seed of backward, a gradient so far: each replay is given its own
  Persistent,  ///< a weight, a buffer, state or a number that outlives a step
  Number,      ///< a number that the host sets before each step, such as a learning rate
  Written,     ///< a number that the program writes into an expression, as the 2 of `x * 2`
  Unknown      ///< nothing made it, and nothing lists it: it would be the same in every replay
};

/// The name of memory that an operator allocates for itself while it computes.
inline constexpr std::string_view scratch_name = "scratch";

/// The memory that tensors of a recorded step share: one storage.
struct RecordedMemory {
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  MemoryUse use = MemoryUse::Made;
  std::string name = {};  ///< `blocks.0.weight`, if it is persistent
  std::size_t bytes = 0;
  c10::Storage storage = {};  ///< what a replay uses, of what each replay reads at the same place
  std::uint32_t first = none, last = none;  ///< the moments of its first and last use
  bool is_written = false;                  ///< an operator has written to it
  bool is_changed = false;  ///< an operator has written to it, and it was there before the step
  bool outlives = false;    ///< it is read after the last operator
};

/// A tensor: a part of some memory.
struct RecordedTensor {
  std::uint32_t memory = RecordedMemory::none;  ///< none: the tensor is undefined
  at::ScalarType dtype = at::kFloat;
  at::DimVector sizes = {}, strides = {};
  std::int64_t offset = 0;
  bool is_wrapped_number = false, is_conjugate = false, is_negative = false;
  std::uint64_t number = 0;  ///< the bits of a wrapped number as a double
  /// The same in two recordings of the same step, in which memory lies elsewhere: how many results
  /// were made before, which tensor was given, or the address of memory that is persistent.
  std::uint64_t identity = 0;

  bool defined() const { return memory != RecordedMemory::none; }
  friend bool operator==(const RecordedTensor&, const RecordedTensor&) = default;
};

/// An argument or a result of an operator.
struct RecordedValue {
  enum class Form { Plain, Tensor, List, OptionalList };
  Form form = Form::Plain;
  c10::IValue plain = {};  ///< a value without tensors
  std::vector<RecordedTensor> tensors = {};
};

/// Memory that an operator allocated: of a result, for itself, or for longer than its call, which
/// no tape may serve (`none`).
struct RecordedAllocation {
  std::size_t bytes = 0;
  std::uint32_t begin = 0, end = 0;  ///< counts the allocations and releases of the operator
  std::uint32_t memory = RecordedMemory::none;
};

/// Something that a recorded step did.
struct RecordedOperator {
  enum class Kind {
    Computes,
    Views,           ///< a replay needs it no more: tensors name their memory
    Allocates,       ///< `empty` and its kind, whose memory the arena has
    CapturesRandom,  ///< the state of a generator is kept
    RestoresRandom   ///< the generator is set back to it
  };
  Kind kind = Kind::Computes;
  std::optional<c10::OperatorHandle> op = {};
  std::optional<c10::OperatorHandle> out = {};  ///< its overload that a replay calls with results
  std::vector<RecordedValue> arguments = {}, results = {};
  std::vector<RecordedAllocation> allocations = {};
  std::uint32_t events = 0;    ///< the number of its allocations and releases
  bool is_wide = false;        ///< bridge::WideProductsScope computes it
  bool has_gradients = false;  ///< the grad mode: some kernels keep more for a backward
  bool is_live = true;         ///< something that outlives the step depends on it
  Phase phase = Phase::Forward;
  std::string unit = {};  ///< the unit whose forward called it
  std::optional<at::Generator> generator = {};
  std::uint64_t random_state = 0;

  /// Returns `aten::mm` or `aten::add.Tensor`.
  std::string name() const;
};

/// All of a recorded step.
struct Recording {
  std::vector<RecordedMemory> memory;
  std::vector<RecordedOperator> operators;
  std::uint64_t random_states = 0;
};

/// Calls `f(tensor)` for each defined tensor of some values.
template <class Values, class F>
void each_defined(Values& values, F&& f) {
  for (auto& value : values)
    for (auto& tensor : value.tensors)
      if (tensor.defined()) f(tensor);
}
/// Returns true if the schema says that argument `i` is written to.
bool writes_argument(const c10::FunctionSchema& schema, std::size_t i);
/// Returns true for operators that write to statistics although their schema does not say so.
bool writes_unsaid(const std::string& name);

/// Marks the operators on whose results something depends that outlives the step.
void find_live_operators(Recording& recording);
/// Returns the indices of the operators that a replay calls.
std::vector<std::size_t> called_operators(const Recording& recording);
/// Returns the tensors whose memory these operators write, of some that outlive a step.
std::vector<at::Tensor> written_of(const Recording& recording,
                                   const std::vector<at::Tensor>& tensors);

/// Returns true if two values without tensors are equal, numbers to the bit.
bool same_plain(const c10::IValue& a, const c10::IValue& b);
/// Returns a wrapped number as a text.
std::string number_text(const RecordedTensor& t);
/// Returns true if two tensors have the same part in two recordings of the same step.
bool same_part(const RecordedTensor& a, const RecordedTensor& b);
/// Returns the first difference of two operators that stand at the same place of two recordings of
/// the same step, as a part of a sentence, or an empty text. Such a difference is a number or a
/// decision of the host that changes from step to step.
std::string difference(const RecordedOperator& before, const RecordedOperator& now);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/capture/impl/recording.ipp>
#endif
