#pragma once
#include <chrono>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/files/disk_cache.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/json.hpp>
#include <random>

namespace ikebana::detail {

/// The beginning of a sample's file.
struct CacheHeader {
  char magic[8];
  std::int64_t index;
  std::uint64_t bytes;
  std::uint32_t crc, header_crc;

  static CacheHeader of(std::int64_t index, const std::string& bytes) {
    CacheHeader header{{'i', 'k', 'e', 'c', 'a', 'c', 'h', '1'},
                       index,
                       bytes.size(),
                       crc32(0, bytes.data(), bytes.size()),
                       0};
    header.header_crc = crc32(0, &header, offsetof(CacheHeader, header_crc));
    return header;
  }
};

inline std::string text_of_file(const std::filesystem::path& path) {
  const auto file = system_files().open(path);
  std::string text(file->size(), '\0');
  file->read(0, text.data(), text.size());
  return text;
}

IKEBANA_INLINE CacheFolder::CacheFolder(std::filesystem::path folder,
                                        const DiskCacheOptions& options, std::int64_t size,
                                        const std::string& signature)
    : folder_(std::move(folder)), options_(options) {
  if (options.key.empty())
    throw BadValue(
        "DiskCache: key is empty. Give what the dataset does a version, such as "
        "\"resize224-v1\", and change it with the dataset.");
  if (options.max_bytes < 0 || options.verified < 0)
    throw BadValue("DiskCache: max_bytes and verified must be 0 or more.");
  prepare();
  const std::string wanted = manifest(size, signature);
  const auto path = folder_ / "manifest.json";
  if (!system_files().exists(path)) put(wanted, path, false);
  check_manifest(wanted);
}

IKEBANA_INLINE std::string CacheFolder::manifest(std::int64_t size,
                                                 const std::string& signature) const {
  return "{\"format\": \"ikebana disk cache 1\", \"key\": " + Json::quoted(options_.key) +
         ", \"size\": " + std::to_string(size) + ", \"sample\": " + Json::quoted(signature) + "}\n";
}

/// Makes the folder, counts its bytes, and removes what processes left that were killed long ago.
IKEBANA_INLINE void CacheFolder::prepare() {
  namespace fs = std::filesystem;
  system_files().make_folder(folder_ / "new");
  if (!system_files().exists(folder_ / "manifest.json"))
    for (const auto& name : system_files().list(folder_))
      if (name != "new" && name != "manifest.json")
        throw BadValue("DiskCache: `" + folder_.string() + "` has other files, such as `" + name +
                       "`, and no manifest of a cache. Name a folder of its own.");
  std::error_code code;
  const auto hour_ago = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : fs::directory_iterator(folder_ / "new", code))
    if (const auto time = entry.last_write_time(code); !code && time < hour_ago)
      fs::remove(entry.path(), code);
  if (options_.max_bytes == 0) return;
  for (const auto& entry : fs::recursive_directory_iterator(folder_, code))
    if (const auto bytes = entry.is_regular_file(code) ? entry.file_size(code) : 0; !code)
      counts.bytes += static_cast<std::int64_t>(bytes);
}

IKEBANA_INLINE void CacheFolder::check_manifest(const std::string& wanted) const {
  const std::string found = text_of_file(folder_ / "manifest.json");
  if (found == wanted) return;
  throw BadValue("DiskCache: the cache in `" + folder_.string() +
                 "` was made by another key or dataset. It is " + Json::excerpt(found) +
                 ", and this one " + Json::excerpt(wanted) +
                 ". Name another folder, or remove that one.");
}

IKEBANA_INLINE std::filesystem::path CacheFolder::file_of(std::int64_t index) const {
  return folder_ / std::to_string(index / 1000) / std::to_string(index);
}

/// Writes a file under a name of its own, and renames it: a file with its name is whole, unless the
/// machine lost its power.
IKEBANA_INLINE void CacheFolder::put(const std::string& bytes, const std::filesystem::path& path,
                                     bool replaces) const {
  thread_local std::mt19937_64 names{std::random_device{}() ^ std::uint64_t(std::random_device{}())
                                                                  << 32};
  const auto temporary = folder_ / "new" / std::to_string(names());
  system_files().create(temporary, bytes.size())->write(0, bytes.data(), bytes.size());
  try {
    if (!replaces && system_files().link(temporary, path))
      return remove_quietly(system_files(), temporary);
    if (replaces || !system_files().exists(path)) system_files().rename(temporary, path);
    else remove_quietly(system_files(), temporary);
  } catch (...) {
    remove_quietly(system_files(), temporary);
    throw;
  }
}

IKEBANA_INLINE std::optional<std::string> CacheFolder::read(std::int64_t index) {
  const auto path = file_of(index);
  if (!system_files().exists(path)) return {};
  std::string bytes;
  try {
    bytes = text_of_file(path);
  } catch (const FileFailed&) {
    if (system_files().exists(path)) throw;
    return {};  // another process has just removed a damaged file
  }
  CacheHeader header{};
  if (bytes.size() >= sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    bytes.erase(0, sizeof header);
    const CacheHeader right = CacheHeader::of(index, bytes);
    if (std::memcmp(&right, &header, sizeof header) == 0) return bytes;
  }
  discard(index);
  return {};
}

IKEBANA_INLINE void CacheFolder::discard(std::int64_t index) {
  ++counts.damaged;
  std::error_code code;
  const auto bytes = std::filesystem::file_size(file_of(index), code);
  if (!code) counts.bytes -= static_cast<std::int64_t>(bytes);
  system_files().remove(file_of(index));
}

IKEBANA_INLINE void CacheFolder::write(std::int64_t index, const std::string& bytes) {
  const CacheHeader header = CacheHeader::of(index, bytes);
  const auto total = static_cast<std::int64_t>(sizeof header + bytes.size());
  const std::int64_t max = options_.max_bytes;
  if (!counts.take(total, max > 0 ? max : std::numeric_limits<std::int64_t>::max())) return;
  std::string all(reinterpret_cast<const char*>(&header), sizeof header);
  system_files().make_folder(file_of(index).parent_path());
  put(all += bytes, file_of(index), true);
}

IKEBANA_INLINE void CacheFolder::fail_verified(std::int64_t index) const {
  throw BadValue("DiskCache: sample " + std::to_string(index) + " in `" + folder_.string() +
                 "` differs from what the dataset makes now. If the dataset has changed, change "
                 "`key` and the folder; if it draws random numbers, cache it before them; if its "
                 "last bits vary, set `verified` to 0.");
}

}  // namespace ikebana::detail
