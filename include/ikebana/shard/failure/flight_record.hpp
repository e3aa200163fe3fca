#pragma once
// Defines the record of a rank's last exchanges, and a comparison of the records of all ranks.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace ikebana {

/// One exchange of a rank with others, as `FlightRecord` has it. Times are seconds since 1970 by
/// the clock of the rank's host.
struct RecordedExchange {
  /// Its number since the ranks last met, from 1. All ranks count alike, so that the same number is
  /// the same exchange. A message between two ranks has the number of the exchange before it.
  std::int64_t number = 0;
  /// PyTorch's name: `all_gather`, `reduce_scatter`, `all_reduce`, `broadcast`, `all_to_all`,
  /// `all_gather_object` for texts, `send_recv` for a message between two ranks.
  std::string kind = {};
  std::string purpose = {};            ///< its call, unit or bucket: `the gather of unit block3`
  std::string dtype = {};              ///< the dtype of the first tensor, such as `Float`
  std::int64_t sent_bytes = 0;         ///< the bytes that this rank sends to all others
  std::int64_t received_bytes = 0;     ///< the bytes that it receives from all others
  double queued = 0;                   ///< when this rank began it
  std::optional<double> awaited = {};  ///< when this rank last began to wait for it
  /// When that wait was over; no value while the exchange is pending. With NCCL the host does not
  /// wait, and this is the time when the device's stream began to.
  std::optional<double> ended = {};
  double waited = 0;  ///< seconds that this rank's host has waited for it, in all

  /// Returns true for an exchange of all ranks of a group, and false for a message between two.
  bool is_collective() const { return kind != "send_recv"; }
};

/// The last exchanges of one rank's trainer. `<<` prints its table.
struct FlightRecord {
  std::int64_t rank = 0;     ///< the rank, from 0
  std::int64_t ranks = 1;    ///< the number of ranks
  std::int64_t trainer = 1;  ///< the number of its trainer within the process group, from 1
  std::int64_t meeting = 0;  ///< how often these ranks had to meet again before, after a failure
  std::vector<RecordedExchange> exchanges = {};  ///< at most 64, the oldest first

  /// Returns a text for people, with a row for each exchange. Times are in milliseconds before the
  /// last one.
  std::string table() const;
  /// Returns lines of comma-separated values, the titles first, as files of records have them.
  std::string csv() const;
};

std::ostream& operator<<(std::ostream& out, const FlightRecord& record);

/// The comparison of the records of several ranks. `<<` prints its text.
struct FlightComparison {
  /// The ranks that began fewer exchanges than others, or the last one more than a second after
  /// another rank.
  std::vector<std::int64_t> behind = {};
  std::vector<std::int64_t> missing = {};  ///< the ranks without a record, as after a SIGKILL
  /// The number of the first exchange in which ranks differ, or else of the one that some ranks did
  /// not begin, or did not end; 0 if there was no such exchange.
  std::int64_t exchange = 0;
  std::string text = {};  ///< says this in sentences
};

std::ostream& operator<<(std::ostream& out, const FlightComparison& comparison);

/// Reads the file of one rank. Throws BadFile if it is no such file, and FileFailed if it cannot be
/// read.
FlightRecord read_flight_record(const std::filesystem::path& path);

/// Says which rank was behind, and at which exchange. All records are of one trainer; if ranks met
/// again after a failure, only records of the last meeting are compared. Throws BadValue without a
/// record, and if records are of different trainings: two of one rank, or different `ranks`.
FlightComparison compare_flight_records(std::span<const FlightRecord> records);
/// Reads all files that the ranks of a failed training left in a folder
/// (`ProcessGroupOptions::flight_recorder`), of its trainer with this number, and compares them.
/// Throws BadValue if there is no such file.
FlightComparison compare_flight_records(const std::filesystem::path& folder,
                                        std::int64_t trainer = 1);

namespace detail {

/// Returns the name of a rank's file: `flight_recorder.rank3.csv`, or for a second trainer
/// `flight_recorder.trainer2.rank3.csv`.
std::string flight_file(std::int64_t trainer, std::int64_t rank);
/// Returns the last exchanges as parts of a sentence: `40 the gather of unit a, ended; ...`.
std::string last_exchanges(const FlightRecord& record, std::size_t count);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/flight_record.ipp>
#endif
