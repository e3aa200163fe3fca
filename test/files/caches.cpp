// RamCache and DiskCache: what they keep, that nobody can change it, and damaged files.
#include <ikebana/data/loader.hpp>
#include <ikebana/data/tensor_dataset.hpp>
#include <ikebana/files/disk_cache.hpp>
#include <ikebana/files/ram_cache.hpp>
#include <thread>
#include "csv_files.hpp"

using namespace ikebana;

namespace test::files::caches {

namespace {

struct Everything {
  at::Tensor image, none;
  std::vector<at::Tensor> boxes;
  std::map<std::string, std::string> texts;
  std::optional<double> weight;
  std::array<int, 2> size{};
};
/// Counts how often a sample is made.
struct Slow {
  std::shared_ptr<std::atomic<int>> made = std::make_shared<std::atomic<int>>(0);
  std::int64_t count = 20;
  double add = 0;

  std::int64_t size() const { return count; }
  std::pair<at::Tensor, std::int64_t> get(std::int64_t i) const {
    ++*made;
    return {at::arange(6.0).view({2, 3}) + double(i) + add, i * 3};
  }
};
struct Rich {
  std::int64_t size() const { return 4; }
  Everything get(std::int64_t i) const {
    const auto n = double(i);
    return {.image = (at::arange(24.0).view({1, 2, 3, 4}) + n)
                         .to(at::kBFloat16)
                         .contiguous(at::MemoryFormat::ChannelsLast),
            .none = {},
            .boxes = {at::full({i, 4}, n), at::scalar_tensor(i, at::kLong),
                      at::ones({3}).to(at::kBool)},
            .texts = {{"a", std::string(3, '\0')}, {"b", ""}},
            .weight = i % 2 ? std::optional(n) : std::nullopt,
            .size = {int(i), -1}};
  }
};

/// Returns a folder that does not exist yet.
std::filesystem::path folder_of(const std::string& name) {
  const auto folder = std::filesystem::path(write_file("", "x")).parent_path() / name;
  std::filesystem::remove_all(folder);
  return folder;
}
bool same(const std::pair<at::Tensor, std::int64_t>& a,
          const std::pair<at::Tensor, std::int64_t>& b) {
  return same_bits(a.first, b.first) && a.second == b.second;
}
/// Returns the file of a sample.
std::string file_of(const std::filesystem::path& folder, int index) {
  return (folder / "0" / std::to_string(index)).string();
}
std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE(
    "ram cache: each sample is made once, and a change of a sample or a batch does not reach it") {
  const Slow slow;
  const RamCache cache{slow, {.max_bytes = MiB(1)}};
  CHECK(cache.size() == 20);
  for (int epoch = 0; epoch < 3; ++epoch)
    for (std::int64_t i = 0; i < 20; ++i) {
      auto sample = cache.get(i);
      CHECK(same(sample, Slow().get(i)));
      sample.first.zero_();
    }
  CHECK(*slow.made == 20);
  CHECK(cache.counts().hits == 40);
  CHECK(cache.counts().misses == 20);
  DataLoader loader{cache, {.batch_size = 1, .num_workers = 2}};
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [x, y] : loader) {
      CHECK(same_bits(x[0], Slow().get(y.item<std::int64_t>() / 3).first));
      x.fill_(-1);
    }
  CHECK(*slow.made == 20);
}

TEST_CASE("ram cache: it holds at most max_bytes, and makes the rest each time") {
  const Slow slow;
  const RamCache cache{&slow, {.max_bytes = 1000}};
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 20; ++i) CHECK(same(cache.get(i), Slow().get(i)));
  const CacheCounts counts = cache.counts();
  CHECK(counts.bytes <= 1000);
  CHECK(counts.hits == 4);  // 24 bytes of a tensor and 208 besides them
  CHECK(counts.not_kept == 32);
  CHECK(contains(message_of<BadValue>([&] { RamCache none{slow, {}}; }),
                 "max_bytes is 0. Set the memory"));
}

TEST_CASE("caches: several threads get the right samples") {
  const auto folder = folder_of("threads");
  const RamCache in_memory{Slow(), {.max_bytes = MiB(1)}};
  const DiskCache on_disk{Slow(), folder, {.key = "1"}};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int epoch = 0; epoch < 3; ++epoch)
        for (std::int64_t i = 0; i < 20; ++i)
          wrong += !same(in_memory.get(i), Slow().get(i)) + !same(on_disk.get(i), Slow().get(i));
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(in_memory.counts().hits + in_memory.counts().misses == 240);
  CHECK(on_disk.counts().hits + on_disk.counts().misses == 240);
  CHECK(on_disk.counts().damaged == 0);
}

TEST_CASE("disk cache: a second process has the samples of the first, with bits and strides") {
  const auto folder = folder_of("rich");
  const DiskCache first{Rich(), folder, {.key = "rich-1"}};
  for (std::int64_t i = 0; i < 4; ++i) first.get(i);
  const DiskCache second{Rich(), folder, {.key = "rich-1", .verified = 0}};
  for (std::int64_t i = 0; i < 4; ++i) {
    const Everything got = second.get(i), expected = Rich().get(i);
    CHECK(same_bits(got.image, expected.image));
    CHECK(got.image.strides() == expected.image.strides());
    CHECK(!got.none.defined());
    CHECK(same_bits(got.boxes, expected.boxes));
    CHECK(got.texts == expected.texts);
    CHECK(got.weight == expected.weight);
    CHECK(got.size == expected.size);
  }
  CHECK(second.counts().hits == 4);
  CHECK(second.counts().misses == 0);

  struct Tokens {
    std::int64_t size() const { return 3; }
    Ragged get(std::int64_t i) const { return Ragged{{at::arange(i)}}; }
  };
  const auto other = folder_of("ragged");
  const DiskCache ragged{Tokens(), other, {.key = "1"}};
  for (int epoch = 0; epoch < 2; ++epoch)
    CHECK(same_bits(ragged.get(2).values(), at::arange(std::int64_t(2))));
  CHECK(ragged.counts().hits == 1);
}

TEST_CASE("disk cache: a slow dataset runs once, also under a loader with workers") {
  const auto folder = folder_of("loader");
  const Slow slow;
  for (int restart = 0; restart < 2; ++restart) {
    const DiskCache cache{&slow, folder, {.key = "1", .verified = 0}};
    DataLoader loader{cache, {.batch_size = 4, .shuffle = true, .num_workers = 2}};
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& [x, y] : loader)
        for (std::int64_t i = 0; i < 4; ++i)
          CHECK(same_bits(x[i], Slow().get(y[i].item<std::int64_t>() / 3).first));
  }
  CHECK(*slow.made == 20);
}

TEST_CASE(
    "disk cache: another key, size or type of sample is an error, and so is a forgotten key") {
  const auto folder = folder_of("key");
  const DiskCache cache{Slow(), folder, {.key = "v1"}};
  for (std::int64_t i = 0; i < 20; ++i) cache.get(i);
  auto error = [&](auto dataset, const DiskCacheOptions& options) {
    return message_of<BadValue>([&] { DiskCache other(dataset, folder, options); });
  };
  CHECK(error(Slow(), {.key = "v1"}).empty());
  CHECK(contains(error(Slow(), {.key = "v2"}), "was made by another key or dataset"));
  CHECK(contains(error(Slow{.count = 21}, {.key = "v1"}), "was made by another key or dataset"));
  CHECK(contains(error(Rich(), {.key = "v1"}), "was made by another key or dataset"));
  CHECK(contains(error(Slow(), {}), "key is empty"));
  CHECK(contains(error(Slow(), {.key = "v1", .max_bytes = -1}), "must be 0 or more"));
  const DiskCache changed{Slow{.add = 1}, folder, {.key = "v1"}};
  CHECK(contains(message_of<BadValue>([&] { changed.get(7); }),
                 "sample 7 in `" + folder.string() + "` differs from what the dataset makes now"));
  const auto foreign = folder_of("foreign");
  std::filesystem::create_directories(foreign);
  std::ofstream(foreign / "notes.txt") << "x";
  CHECK(contains(message_of<BadValue>([&] { DiskCache other(Slow(), foreign, {.key = "1"}); }),
                 "has other files, such as `notes.txt`"));
}

TEST_CASE("disk cache: a file that is cut off or damaged anywhere is made again") {
  const auto folder = folder_of("damaged");
  const DiskCache cache{Slow(), folder, {.key = "1"}};
  for (std::int64_t i = 0; i < 20; ++i) cache.get(i);
  const std::string good = contents(file_of(folder, 3));
  std::int64_t damaged = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (bool is_cut : {true, false}) {
      std::string bytes = is_cut ? good.substr(0, at) : good;
      if (!is_cut) bytes[at] = char(bytes[at] ^ 0x40);
      std::ofstream(file_of(folder, 3), std::ios::binary) << bytes;
      CHECK(same(cache.get(3), Slow().get(3)));
      CHECK(cache.counts().damaged == ++damaged);
    }
  CHECK(contents(file_of(folder, 3)) == good);
  std::ofstream(file_of(folder, 4), std::ios::binary) << good;  // another sample's file
  CHECK(same(cache.get(4), Slow().get(4)));
  CHECK(cache.counts().damaged == damaged + 1);
  // A file that a killed process was writing has another name, and is removed after an hour.
  const auto old = folder / "new" / "123", young = folder / "new" / "456";
  for (const auto& path : {old, young}) std::ofstream(path) << "half";
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  const DiskCache later{Slow(), folder, {.key = "1"}};
  CHECK(!std::filesystem::exists(old));
  CHECK(std::filesystem::exists(young));
}

TEST_CASE("disk cache: it writes at most max_bytes, and refuses tensors that are not dense") {
  const auto folder = folder_of("limit");
  for (int restart = 0; restart < 2; ++restart) {
    const DiskCache cache{Slow(), folder, {.key = "1", .max_bytes = 1000}};
    for (std::int64_t i = 0; i < 20; ++i) CHECK(same(cache.get(i), Slow().get(i)));
    CHECK(cache.counts().bytes <= 1000);
    CHECK(cache.counts().not_kept > 10);
    CHECK(cache.counts().hits == (restart == 0 ? 0 : 20 - cache.counts().misses));
  }
  struct Sparse {
    std::int64_t size() const { return 1; }
    at::Tensor get(std::int64_t) const { return at::eye(3).to_sparse(); }
  };
  const DiskCache sparse{Sparse(), folder_of("sparse"), {.key = "1"}};
  CHECK(contains(message_of<BadBatch>([&] { sparse.get(0); }),
                 "Return dense tensors of numbers on the CPU"));
}

TEST_CASE("disk cache: changed bytes unpack to a sample or are refused, and never crash") {
  ikebana::detail::SamplePacker packer;
  packer.add(Rich().get(3));
  std::mt19937 random(3);
  int refused = 0;
  const int count = is_thorough() ? 50000 : 1000;
  for (int i = 0; i < count; ++i) {
    std::string bytes = packer.bytes;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] = char(random() % 4 == 0 ? random() % 256 : random() % 3);
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    ikebana::detail::SampleUnpacker unpacker(bytes);
    Everything sample;
    unpacker.read(sample);
    refused += !unpacker.is_whole || !unpacker.rest.empty();
  }
  CHECK(refused > count / 4);
}

}  // namespace test::files::caches
