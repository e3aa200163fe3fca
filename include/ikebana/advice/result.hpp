#pragma once
// Defines the memory of a training by kind and by unit, and its forms as a text, as CSV and as
// JSON.
#include <cstdint>
#include <ikebana/hooks/arguments.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// Bytes of one unit of the model. Memory that belongs to no unit is the root's, whose name is
/// empty.
struct UnitMemory {
  std::string name;                  ///< the name in `named_modules`
  std::int64_t parameters = 0;       ///< the parameters as they are stored between steps
  std::int64_t gradients = 0;        ///< the gradients of one step
  std::int64_t optimizer_state = 0;  ///< the optimizer state of its parameters
  std::int64_t activations = 0;      ///< the tensors that its forward leaves for backward, in one
                                     ///< microbatch
};

/// The memory that training takes on one device, of one rank, in bytes. `peak` is the most at once
/// in a step that is not the first, so that the state of optimizers is there. The other fields are
/// the bytes of each kind at the end of a forward, at the end of a backward or between steps; they
/// are not all in use at the same time.
struct Estimate {
  std::int64_t parameters = 0;       ///< master weights: what the optimizer updates
  std::int64_t gathered = 0;         ///< copies that units compute with, at most at once
  std::int64_t buffers = 0;          ///< such as batch norm's statistics
  std::int64_t gradients = 0;        ///< the gradients of one step
  std::int64_t optimizer_state = 0;  ///< moments and counts of steps
  std::int64_t averages = 0;         ///< the averages of the weights, under EMA and SWA
  std::int64_t activations = 0;      ///< the bytes from forward to backward, of one microbatch
  std::int64_t batch = 0;            ///< the batch on the device of the model
  std::int64_t other = 0;            ///< memory between steps that is of none of these kinds
  std::int64_t offloaded =
      0;  ///< bytes of these kinds that Offload stores elsewhere, at most at once
  bool is_offloaded_to_disk = false;  ///< whether it goes to a disk, and not to memory of the host
  std::int64_t between_steps = 0;     ///< all that is allocated between two steps
  std::int64_t peak = 0;              ///< the most at once in a step
  Phase peak_phase = Phase::Forward;  ///< the phase in which the peak occurs
  std::string peak_unit =
      {};  ///< the unit whose forward or backward computes at the peak; empty: no unit's
  std::int64_t elements = 0;   ///< the number for all parameters, on all ranks
  bool is_measured = false;    ///< true: measured with real tensors; false: estimated from shapes
  std::int64_t rank = 0;       ///< the rank whose memory this is
  std::int64_t ranks = 1;      ///< the number of ranks that train the model
  std::string device = "cpu";  ///< the text of c10::Device::str
  std::vector<UnitMemory> units = {};  ///< the units in the order of registration, the root first

  /// Returns a text for people, with a row for each unit; `<<` prints it.
  std::string table() const;
  /// Returns every kind of memory, one per line, in bytes.
  std::string csv() const;
  /// Returns every kind of memory, in bytes, and the units, as an object.
  std::string json() const;
};

std::ostream& operator<<(std::ostream& out, const Estimate& estimate);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/result.ipp>
#endif
