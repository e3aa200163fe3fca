#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <numeric>

namespace ikebana::detail {

inline std::string time_text(double us) {
  if (us >= 1e6) return fixed(us / 1e6, 3) + "s";
  if (us >= 1e3) return fixed(us / 1e3, 3) + "ms";
  return fixed(us, 3) + "us";
}
inline std::string share_text(double us, double total) {
  return total == 0 ? "NaN" : fixed(us * 100 / total, 2) + "%";
}
inline std::string memory_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (std::abs(size) >= 1 << 30) return fixed(size / (1 << 30), 2) + " GB";
  if (std::abs(size) >= 1 << 20) return fixed(size / (1 << 20), 2) + " MB";
  if (std::abs(size) >= 1 << 10) return fixed(size / (1 << 10), 2) + " KB";
  return std::to_string(bytes) + " B";
}

/// The columns of a table: names are aligned to the left of theirs, numbers to the right.
class ProfileTable {
 public:
  ProfileTable(const std::vector<ProfileRow>& rows, const KeyAverages& averages,
               const ProfileTableOptions& options)
      : rows_(rows), averages_(averages), options_(options) {
    for (const ProfileRow& row : rows) {
      self_cpu_ += row.self_cpu_time_total;
      self_device_ += row.device_type != c10::DeviceType::CPU && !row.is_user_annotation
                          ? row.self_device_time_total
                          : 0;
      has_device_ = has_device_ || row.self_device_time_total > 0;
      if (row.flops > 0) least_flops_ = std::min(least_flops_, row.flops);
    }
  }

  std::string text() {
    add_times();
    if (has_device_) add_device();
    if (averages_.profile_memory) add_memory();
    add("# of Calls", [](const ProfileRow& row) { return std::to_string(row.count); });
    if (any([](const ProfileRow& row) { return !row.input_shapes.empty(); }))
      add_text("Input Shapes", &ProfileRow::input_shapes, options_.max_shapes_width);
    if (averages_.with_flops && least_flops_ != none) add_flops();
    std::string rule = line([](const Column& c) { return std::string(c.width, '-'); });
    std::string all = rule + line([](const Column& c) { return right(c.title, c.width); }) + rule;
    const auto shown = std::min(rows_.size(), static_cast<std::size_t>(options_.rows));
    for (std::size_t i = 0; i < shown; ++i)
      all += line([&](const Column& c) { return right(c.cell(rows_[i]), c.width); });
    all += rule + "Self CPU time total: " + time_text(self_cpu_) + "\n";
    if (has_device_) all += "Self device time total: " + time_text(self_device_) + "\n";
    return all;
  }

 private:
  using Cell = std::function<std::string(const ProfileRow&)>;
  struct Column {
    std::string title;
    std::size_t width;
    Cell cell;
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  template <class Is>
  bool any(Is is) const {
    return std::any_of(rows_.begin(), rows_.end(), is);
  }
  void add(const char* title, Cell cell) { columns_.push_back({title, 12, std::move(cell)}); }
  /// Adds a column as wide as its longest text, and at most `most`.
  void add_text(const char* title, std::string ProfileRow::* text, std::int64_t most) {
    std::size_t width = std::string(title).size();
    for (const ProfileRow& row : rows_) width = std::max(width, (row.*text).size() + 4);
    width = std::min(width, static_cast<std::size_t>(most));
    columns_.push_back({title, width, [text, width](const ProfileRow& row) {
                          const std::string& all = row.*text;
                          return all.size() <= width ? all : all.substr(0, width - 3) + "...";
                        }});
  }
  void add_times() {
    add_text("Name", &ProfileRow::key, options_.max_name_width);
    if (any([](const ProfileRow& row) { return !row.unit.empty(); }))
      add_text("Unit", &ProfileRow::unit, options_.max_name_width);
    const double total = self_cpu_;
    add("Self CPU %", [total](auto& row) { return share_text(row.self_cpu_time_total, total); });
    add("Self CPU", [](auto& row) { return time_text(row.self_cpu_time_total); });
    add("CPU total %", [total](auto& row) { return share_text(row.cpu_time_total, total); });
    add("CPU total", [](auto& row) { return time_text(row.cpu_time_total); });
    add("CPU time avg", [](auto& row) { return time_text(row.cpu_time()); });
  }
  void add_device() {
    const double total = self_device_;
    add("Self device", [](auto& row) { return time_text(row.self_device_time_total); });
    add("Self dev. %",
        [total](auto& row) { return share_text(row.self_device_time_total, total); });
    add("Device total", [](auto& row) { return time_text(row.device_time_total); });
  }
  void add_memory() {
    add("CPU Mem", [](auto& row) { return memory_text(row.cpu_memory_usage); });
    add("Self CPU Mem", [](auto& row) { return memory_text(row.self_cpu_memory_usage); });
    if (!any([](const ProfileRow& row) { return row.device_memory_usage != 0; })) return;
    add("Device Mem", [](auto& row) { return memory_text(row.device_memory_usage); });
    add("Self dev Mem", [](auto& row) { return memory_text(row.self_device_memory_usage); });
  }
  /// Adds the operations in the largest unit in which every row has a number of 1 or more.
  void add_flops() {
    static constexpr std::array units{"Total FLOPs",  "Total KFLOPs", "Total MFLOPs",
                                      "Total GFLOPs", "Total TFLOPs", "Total PFLOPs"};
    std::size_t unit = 0;
    double scale = 1;
    for (; unit + 1 < units.size() && static_cast<double>(least_flops_) / scale >= 1e3; ++unit)
      scale *= 1e3;
    add(units[unit], [scale](const ProfileRow& row) {
      return row.flops == 0 ? "--" : fixed(static_cast<double>(row.flops) / scale, 3);
    });
  }
  template <class Cell>
  std::string line(Cell cell) const {
    std::string all;
    for (const Column& column : columns_) all += cell(column) + "  ";
    return all.substr(0, all.size() - 2) + "\n";
  }

  const std::vector<ProfileRow>& rows_;
  const KeyAverages& averages_;
  const ProfileTableOptions& options_;
  std::vector<Column> columns_;
  double self_cpu_ = 0, self_device_ = 0;
  bool has_device_ = false;
  std::uint64_t least_flops_ = none;
};

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string KeyAverages::table(const ProfileTableOptions& options) const {
  if (options.rows < 0 || options.max_name_width < 8 || options.max_shapes_width < 8)
    throw BadValue("KeyAverages::table: rows is " + std::to_string(options.rows) +
                   ", max_name_width " + std::to_string(options.max_name_width) +
                   " and max_shapes_width " + std::to_string(options.max_shapes_width) +
                   ". Write 0 rows or more, and widths of 8 or more.");
  std::vector<ProfileRow> sorted(begin(), end());
  if (options.sort_by)
    std::stable_sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
      return options.sort_by(a) > options.sort_by(b);
    });
  return detail::ProfileTable(sorted, *this, options).text();
}

IKEBANA_INLINE std::string KeyAverages::csv() const {
  std::string text =
      "key,unit,input_shapes,count,cpu_time_total,self_cpu_time_total,device_time_total,"
      "self_device_time_total,cpu_memory_usage,self_cpu_memory_usage,device_memory_usage,"
      "self_device_memory_usage,flops,is_user_annotation\n";
  for (const ProfileRow& row : *this) {
    text += detail::csv_quoted(row.key) + "," + detail::csv_quoted(row.unit) + "," +
            detail::csv_quoted(row.input_shapes) + "," + std::to_string(row.count);
    for (const double time : {row.cpu_time_total, row.self_cpu_time_total, row.device_time_total,
                              row.self_device_time_total})
      text += "," + detail::fixed(time, 3);
    for (const std::int64_t bytes : {row.cpu_memory_usage, row.self_cpu_memory_usage,
                                     row.device_memory_usage, row.self_device_memory_usage})
      text += "," + std::to_string(bytes);
    text += "," + std::to_string(row.flops) + (row.is_user_annotation ? ",1\n" : ",0\n");
  }
  return text;
}

}  // namespace ikebana
