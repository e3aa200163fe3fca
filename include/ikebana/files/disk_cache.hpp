#pragma once
// DiskCache: keeps what a dataset made in the files of a folder.
#include <filesystem>
#include <ikebana/files/packed_sample.hpp>
#include <ikebana/files/ram_cache.hpp>
#include <string>

namespace ikebana {

/// Options of a DiskCache.
struct DiskCacheOptions {
  /// The version of what the dataset does, such as "resize224-v2". Change it with the dataset's
  /// files and code.
  std::string key{};
  std::int64_t max_bytes = 0;  ///< bytes of all files; 0: as many as the disk holds
  /// The first so many samples that this cache finds in the folder are made once more and compared,
  /// so that a forgotten change of `key` is an error.
  std::int64_t verified = 1;
};

namespace detail {

/// The folder of a cache: a manifest, and a file for each sample.
class CacheFolder {
 public:
  /// Makes the folder, or opens one with the same key, number of samples and `signature`. Throws
  /// BadValue for another one, FileFailed if it cannot be written.
  CacheFolder(std::filesystem::path folder, const DiskCacheOptions& options, std::int64_t size,
              const std::string& signature);

  /// Returns the bytes of a sample; none if it has no file or a damaged one, which is counted.
  std::optional<std::string> read(std::int64_t index);
  void write(std::int64_t index, const std::string& bytes);
  /// Removes a file that has no sample of the type, and counts it as damaged.
  void discard(std::int64_t index);
  /// Returns whether this sample that was found is to be compared.
  bool verifies() { return verified_ < options_.verified && verified_++ < options_.verified; }
  [[noreturn]] void fail_verified(std::int64_t index) const;

  SharedCounts counts;

 private:
  std::filesystem::path file_of(std::int64_t index) const;
  std::string manifest(std::int64_t size, const std::string& signature) const;
  void check_manifest(const std::string& wanted) const;
  void put(const std::string& bytes, const std::filesystem::path& path, bool replaces) const;
  void prepare();

  std::filesystem::path folder_;
  DiskCacheOptions options_;
  std::atomic<std::int64_t> verified_{0};
};

}  // namespace detail

/// A dataset that keeps what another one's `get` returned in a folder, so that a slow transform
/// runs once, also over restarts and over processes that run at the same time: `DiskCache{dataset,
/// "cache", {.key = "resize224-v2"}}`. A sample may hold tensors on the CPU, numbers and texts, in
/// structs, pairs, tuples, lists and maps; its bits and strides are kept.
///
/// The folder's manifest has the key, the number of samples and their type; a folder with others is
/// a BadValue, and nothing in it is used. A file that a killed process left incomplete, or a
/// damaged one, is made again: each has its length and a checksum, and gets its name when it is
/// written. Several threads may call `get`. Copies share the counts. Takes the dataset, or a
/// pointer to one that outlives it; its `get(index)` must be const and take no SampleRng. Costs one
/// file per sample. Throws FileFailed if the disk is full.
template <class Dataset>
class DiskCache {
 public:
  using Sample = detail::cached_sample_t<Dataset>;  ///< the result of `get`

  /// Takes the dataset and the folder, which is made if it does not exist.
  explicit DiskCache(Dataset dataset, const std::filesystem::path& folder,
                     const DiskCacheOptions& options)
      : dataset_(std::move(dataset)) {
    detail::check_cached<Dataset>();
    static_assert(detail::packs<Sample>(),
                  "ikebana: DiskCache keeps samples of tensors, numbers and texts, in plain "
                  "structs, pairs, tuples, lists and std::map<std::string, ...>. Return such a "
                  "sample from `get`.");
    std::string signature;
    if constexpr (detail::packs<Sample>()) detail::add_signature<Sample>(signature);
    folder_ = std::make_shared<detail::CacheFolder>(folder, options, size(), signature);
  }

  /// Returns the number of samples.
  std::int64_t size() const { return detail::size_of(detail::dataset_of(dataset_)); }
  /// Returns a sample: from its file, or what the dataset makes, which is kept.
  Sample get(std::int64_t index) const {
    if (const auto bytes = folder_->read(index)) {
      detail::SampleUnpacker unpacker(*bytes);
      Sample sample{};
      unpacker.read(sample);
      if (unpacker.is_whole && unpacker.rest.empty()) {
        if (folder_->verifies() && packed(made(index)) != *bytes) folder_->fail_verified(index);
        ++folder_->counts.hits;
        return sample;
      }
      folder_->discard(index);
    }
    Sample sample = made(index);
    ++folder_->counts.misses;
    folder_->write(index, packed(sample));
    return sample;
  }
  /// Returns what the cache has done so far, in all its copies of this process.
  CacheCounts counts() const { return folder_->counts.read(); }

 private:
  Sample made(std::int64_t index) const {
    return std::as_const(detail::dataset_of(dataset_)).get(index);
  }
  static std::string packed(const Sample& sample) {
    detail::SamplePacker packer;
    packer.add(sample);
    return std::move(packer.bytes);
  }

  mutable Dataset dataset_;
  std::shared_ptr<detail::CacheFolder> folder_;
};

template <class Dataset, class Folder>
DiskCache(Dataset, Folder, DiskCacheOptions) -> DiskCache<Dataset>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/disk_cache.ipp>
#endif
