// Compiles and runs the code that docs/shards.md shows.
#include "../files/tar_files.hpp"

#include <ikebana/data/loader.hpp>
#include <ikebana/files/disk_cache.hpp>
#include <ikebana/files/ram_cache.hpp>
#include <ikebana/files/tar_shards.hpp>

using namespace ikebana;

namespace test::docs_shards {

at::Tensor decode(const std::string& bytes) { return at::full({4}, double(bytes.size())); }

TEST_CASE("shards.md: tar shards are a dataset, and its samples are kept") {
  std::string bytes;
  for (const char* key : {"0", "1", "2"})
    bytes += files::tar_member(std::string(key) + ".jpg", key) +
             files::tar_member(std::string(key) + ".cls", key);
  for (const char* name : {"train-000000.tar", "train-000001.tar"})
    files::write_file(bytes + files::tar_end(), name);
  const std::filesystem::path folder =
      std::filesystem::path(files::write_file("", "x")).parent_path();
  std::filesystem::remove_all(folder / "cache");

  auto sample = [](const TarSample& files) {
    return std::pair(decode(files["jpg"]), files.integer("cls"));
  };
  TarShards shards(folder / "train-{000000..000001}.tar", sample);
  DataLoader loader{shards, {.batch_size = 4, .shuffle = true, .num_workers = 2}};
  for (auto& [images, classes] : loader) CHECK(images.size(0) == classes.size(0));

  DiskCache on_disk{shards, folder / "cache", {.key = "resize224-v2"}};
  RamCache cached{on_disk, {.max_bytes = GiB(1)}};
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < cached.size(); ++i) cached.get(i);
  CHECK(on_disk.counts().misses == 6);
  CHECK(cached.counts().hits == 6);
}

}  // namespace test::docs_shards
