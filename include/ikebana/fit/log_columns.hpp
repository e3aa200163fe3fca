#pragma once
// Makes the rows of logs: named numbers of a step, a validation and an epoch.
#include <ikebana/report.hpp>

namespace ikebana {

/// A row of a log: named numbers, in the order of their columns.
using LogRow = std::vector<std::pair<std::string, double>>;

/// Returns the numbers of a step: `step`, `loss`, each named term, `lr`, with several parameter
/// groups `lr.0`, `lr.1` and so on; `grad_norm` and `peak_bytes` if a policy reports them; under
/// Accumulate<Fit<>> `microbatches` and `undone`; under Offload its traffic; `count`, the items
/// that the loss was summed over; on a CPU, or under Observe<Throughput>, `items_per_second`, and
/// under that also `flops_per_second` and `share_of_bound`; `skipped` (0 or 1), `seconds`; on a CPU
/// under Observe<Phases> `seconds_forward` and the other phases; and `epoch` and `batch` if the
/// position is known. All loggers write these, so a new column is added here. Waits for the device.
/// Throws NonFinite as Report::loss does, and Error for a term that has the name of another column.
LogRow columns_of(const Report& report);
/// Returns the numbers of a validation: `step`, `epoch`, `val_loss`, and `val_<metric>` for each
/// metric.
LogRow columns_of(const Validation& validation);
/// Returns the numbers of an epoch: `epoch`, `steps`, `loss` and `seconds`; `train_<metric>` for
/// each metric of training; with a validation also `val_loss`, and `val_<metric>` for each metric.
LogRow columns_of(const Epoch& epoch);

namespace detail {

/// Returns the value of a column, or no value if the row does not have it.
std::optional<double> find_column(const LogRow& row, const std::string& name);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/log_columns.ipp>
#endif
