#pragma once
// TarShards: WebDataset's tar files as a dataset.
#include <filesystem>
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/files/shard_paths.hpp>
#include <map>
#include <memory>
#include <type_traits>

namespace ikebana {

/// The files of one sample in a shard, by extension.
struct TarSample {
  std::string key;                           ///< the files' common name, with its folder
  std::filesystem::path shard;               ///< the tar file
  std::map<std::string, std::string> files;  ///< the bytes of each file, by extension: `jpg`

  /// Returns the bytes of the file with this extension. Throws BadFile, with shard and key, if
  /// the sample has no such file.
  const std::string& operator[](const std::string& extension) const;
  /// Returns whether there is a file with this extension.
  bool has(const std::string& extension) const { return files.count(extension) > 0; }
  /// Returns the integer in a file, such as `cls`; space around it is skipped. Throws BadFile if it
  /// has something else.
  std::int64_t integer(const std::string& extension) const;
};

namespace detail {

/// The index of all samples of shards. It holds no open file, so that there may be any number of
/// shards.
class TarIndex {
 public:
  explicit TarIndex(const ShardPaths& paths);

  std::int64_t size() const { return static_cast<std::int64_t>(samples_.size()); }
  std::string key(std::int64_t index) const;
  TarSample read(std::int64_t index) const;

 private:
  struct Shard {
    std::filesystem::path path;
    std::uint64_t size;
    std::filesystem::file_time_type changed;
  };
  struct Member {
    std::uint64_t offset, size;
    std::uint32_t extension;
    std::int64_t next;  // the next file of the same sample, or -1
  };
  struct Sample {
    std::uint64_t key_begin;
    std::uint32_t key_size, shard;
    std::int64_t first, last;  // files
  };

  void add_shard(const std::filesystem::path& path);
  const Sample& sample(std::int64_t index) const;
  std::uint32_t number_of(const std::string& extension);

  std::vector<Shard> shards_;
  std::vector<Member> members_;
  std::vector<Sample> samples_;
  std::string keys_;
  std::vector<std::string> extensions_;
};

/// Divides a file's path as WebDataset does: `a/b.seg.png` into key `a/b` and extension `seg.png`,
/// in lower case. Returns false for a file that it skips: without extension, hidden, or in
/// `__x__/`.
bool divide_name(const std::string& name, std::string& key, std::string& extension);

struct AsItIs {
  TarSample operator()(TarSample sample) const { return sample; }
};

}  // namespace detail

/// A dataset of the samples in WebDataset's tar files. A sample is the files that share a name up
/// to its first dot, `f(const TarSample&)` or `f(const TarSample&, SampleRng&)` makes of it what a
/// batch is made of. `f` must be callable by several threads at once.
///
/// The files' headers are read when it is made: their positions take about 60 bytes per file in
/// memory, and any sample can be read by itself. So shuffling is that of the whole dataset, and
/// workers, ranks and resuming are the DataLoader's, without WebDataset's shuffle buffers and
/// `split_by_node`. Each `get` opens its shard, and reads one piece per file.
///
/// Throws BadFile for a shard that is damaged, cut off, compressed, or has a file twice, with its
/// path and byte; FileFailed if it cannot be read; `get` throws BadFile if a shard has changed.
template <class F = detail::AsItIs>
class TarShards {
 public:
  /// Reads the headers of all shards.
  explicit TarShards(const ShardPaths& shards, F f = {})
      : index_(std::make_shared<const detail::TarIndex>(shards)), f_(std::move(f)) {}

  /// Returns the number of samples.
  std::int64_t size() const { return index_->size(); }
  /// Returns the key of a sample.
  std::string key(std::int64_t index) const { return index_->key(index); }
  /// Returns the files of a sample. Throws BadFile if its shard has changed.
  TarSample files(std::int64_t index) const { return index_->read(index); }
  /// Returns what `f` makes of a sample.
  auto get(std::int64_t index) const
    requires std::is_invocable_v<const F&, TarSample>
  {
    return f_(index_->read(index));
  }
  auto get(std::int64_t index, SampleRng& rng) const
    requires std::is_invocable_v<const F&, TarSample, SampleRng&>
  {
    return f_(index_->read(index), rng);
  }

 private:
  std::shared_ptr<const detail::TarIndex> index_;
  F f_;
};

template <class Shards, class F>
TarShards(Shards, F) -> TarShards<F>;
template <class Shards>
TarShards(Shards) -> TarShards<>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/tar_shards.ipp>
#endif
