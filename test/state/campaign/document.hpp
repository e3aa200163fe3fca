#pragma once
// A file of tensors taken apart, to be put together again with something changed.
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace campaign {

using Random = std::mt19937_64;

/// What a file says of a tensor. `raw` replaces the JSON of one of its fields, or of its "name".
struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
  std::map<std::string, std::string> raw = {};
  std::string more = {}, instead = {};  // further fields; all of the entry

  std::uint64_t bytes() const { return end - begin; }
  std::string field(const std::string& which) const;
  std::string text(const std::string& colon, const std::string& comma) const;
};

/// Which checksums are put right after a change: none, the header's, all of them.
enum class Mend { None, Header, All };

struct Document {
  std::vector<std::pair<std::string, std::string>> metadata;  // keys and values as JSON
  std::vector<Entry> tensors;
  std::string data;
  std::string colon = ":", comma = ",", front = {}, back = {};
  std::optional<std::uint64_t> length = {};
  bool keeps_checksums = false;  // the change is one of checksums: only the header's is mended

  static Document of(const std::string& bytes);
  std::string written(Mend mend) const;
  /// The value of a key of the metadata; null where it has none.
  const std::string* about(const std::string& key) const;
  void forget(const std::string& key);

 private:
  void mend_tensors();
  std::string text() const;
};

}  // namespace campaign
