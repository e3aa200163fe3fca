#pragma once
// A safetensors file in parts, to be written again with a change.
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace campaign {

using Random = std::mt19937_64;

/// The entry of a tensor in the header. `raw` replaces the JSON of one of its fields, or of its
/// "name".
struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
  std::map<std::string, std::string> raw = {};
  std::string more = {}, instead = {};  // further fields; replaces the whole entry

  std::uint64_t bytes() const { return end - begin; }
  std::string field(const std::string& which) const;
  std::string text(const std::string& colon, const std::string& comma) const;
};

/// Says which checksums are corrected after a change: none, the header's, all of them.
enum class FixChecksums { None, Header, All };

struct Document {
  std::vector<std::pair<std::string, std::string>> metadata;  // keys and values as JSON
  std::vector<Entry> tensors;
  std::string data;
  std::string colon = ":", comma = ",", front = {}, back = {};
  std::optional<std::uint64_t> length = {};
  bool keeps_checksums = false;  // the change is to checksums: only the header's is corrected

  static Document of(const std::string& bytes);
  std::string written(FixChecksums fix) const;
  /// Returns the value of a key of the metadata; null if the key does not exist.
  const std::string* metadata_value(const std::string& key) const;
  void remove_metadata(const std::string& key);

 private:
  void fix_tensor_checksums();
  std::string text() const;
};

}  // namespace campaign
