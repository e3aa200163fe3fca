// Examples of the reference: files of tables, arrays, tokens and shards, and caches.
#include <ikebana/files/csv.hpp>
#include <ikebana/files/disk_cache.hpp>
#include <ikebana/files/file_dataset.hpp>
#include <ikebana/files/find_files.hpp>
#include <ikebana/files/npy.hpp>
#include <ikebana/files/ram_cache.hpp>
#include <ikebana/files/skip_bad.hpp>
#include <ikebana/files/tar_shards.hpp>
#include <ikebana/files/token_files.hpp>

#include "files/tar_files.hpp"
#include "images/temporary.hpp"
#include "policies.hpp"

namespace test::reference::of_files {

using Folder = test::images::Folder;

TEST_CASE("reference: a csv file") {
  const Folder temporary("reference_csv");
  const auto path = temporary.write(
      "houses.csv", "id,price,area,city\n007,12.5,,Oslo\n008,20,70,Lima\n009,15,-999,Oslo\n");
  Printed printed;
  // example: read_csv, CsvOptions, ColumnType
  CsvOptions options{.dtype = {{"id", ColumnType::text()}, {"price", at::kFloat}},
                     .na_values = {"-999"}};
  Table table = read_csv(path, options);
  std::vector<std::string> id = table.text("id");  // "007", which as a number would be 7
  // end

  // example: Table
  at::Tensor price = table["price"];               // (rows), Float, as the options say
  at::Tensor x = table.tensor({"price", "area"});  // (rows, 2), NaN where a value is missing
  at::Tensor rows = table.missing("area").logical_not().nonzero().squeeze(1);
  std::cout << table.describe() << '\n';
  // end

  // example: Categories, CategoriesOptions
  Categories city = table.categories("city");  // numbers of `city.names`, as Long
  at::Tensor one_hot = at::one_hot(city.codes);

  CategoriesOptions same{.names = city.names};  // also for a table without some of the cities
  Categories again = table.categories("city", same);
  // end
  CHECK(contains(printed.text(), "price"));
  CHECK((id[0] == "007" && price.scalar_type() == at::kFloat && rows.numel() == 1));
  CHECK((x.sizes() == at::IntArrayRef{3, 2} && one_hot.size(1) == 2));
  CHECK(same_bits(city.codes, again.codes));
}

TEST_CASE("reference: numpy's files") {
  const Folder temporary("reference_npy");
  const std::filesystem::path& folder = temporary.root;
  // example: read_npy, write_npy
  write_npy(folder / "images.npy", at::rand({10, 3, 8, 8}));  // numpy.load reads it
  write_npy(folder / "labels.npy", at::arange(10) % 3);
  at::Tensor images = read_npy(folder / "images.npy");
  // end
  CHECK(images.sizes() == at::IntArrayRef{10, 3, 8, 8});

  // example: NpyRows
  NpyRows rows(folder / "images.npy");  // reads a row when it is asked for
  at::Tensor some = rows.get_batch(at::tensor({7, 2}, at::kLong));  // (2, 3, 8, 8)
  DataLoader loader{rows, {.batch_size = 5, .shuffle = true}};
  // end
  CHECK((same_bits(some[0], images[7]) && loader.size() == 2));
}

TEST_CASE("reference: files of tokens") {
  const Folder temporary("reference_tokens");
  const std::filesystem::path& data = temporary.root;
  write_npy(data / "train_0.npy", at::arange(1, 42) % 10);
  // example: TokenFiles, TokenOptions, TokenBatch
  TokenOptions options{.length = 8, .vocab_size = 50257};  // a .bin file needs its dtype, too
  TokenFiles train(data / "train_*.npy", options);
  DataLoader loader{train, {.batch_size = 4, .shuffle = true}};
  std::int64_t tokens = 0;
  for (TokenBatch& batch : loader) tokens += batch.target.numel();  // input and target (4, 8)
  // end
  CHECK((tokens == 40 && train.tokens() == 41));

  // example: PackedTokenFiles, PackedBatch
  PackedTokenFiles documents(data / "train_*.npy", /*end_of_text=*/0, {.length = 8});
  DataLoader packed{documents, {.batch_size = 4, .shuffle = true}};
  std::int64_t parts = 0;
  for (PackedBatch& batch : packed) parts += batch.input.lengths().size();  // the documents'
  // end
  CHECK(parts > 5);
}

TEST_CASE("reference: shards and caches") {
  const Folder temporary("reference_shards");
  const std::filesystem::path& folder = temporary.root;
  for (const char* name : {"train-000000.tar", "train-000001.tar"})
    temporary.write(name, test::files::tar_member("a.txt", "some text") +
                              test::files::tar_member("a.cls", "2") + test::files::tar_end());
  // example: TarShards, TarSample, ShardPaths
  auto sample = [](const TarSample& files) {  // the files a.txt and a.cls
    const auto length = static_cast<double>(files["txt"].size());
    return std::pair(at::full({4}, length), files.integer("cls"));
  };
  ShardPaths paths(folder / "train-{000000..000001}.tar");
  TarShards shards(paths, sample);
  DataLoader loader{shards, {.batch_size = 2, .shuffle = true, .num_workers = 2}};
  // end
  for (auto& [input, target] : loader) CHECK((input[0][0].item<double>() == 9 && target.numel()));

  // example: DiskCache, DiskCacheOptions
  DiskCacheOptions of_disk{.key = "length-v1"};  // change it when `sample` changes
  DiskCache on_disk{shards, folder / "cache", of_disk};
  auto first = on_disk.get(0);  // made, and kept for this run and all later ones
  // end

  // example: RamCache, RamCacheOptions, CacheCounts
  RamCacheOptions of_memory{.max_bytes = GiB(8)};
  RamCache cached{on_disk, of_memory};
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < cached.size(); ++i) cached.get(i);
  CacheCounts counts = cached.counts();  // 2 misses in the first epoch, 2 hits in the second
  // end
  CHECK((counts.misses == 2 && counts.hits == 2 && on_disk.counts().misses == 2));
  CHECK(first.second == 2);
}

// example: FileDataset, find_files
at::Tensor read_spectrum(const std::filesystem::path& path) {
  if (std::filesystem::file_size(path) != 32) throw BadFile("it has no 8 numbers");
  return at::from_file(path.string(), /*shared=*/false, 8, at::kFloat).clone();
}

auto spectra(const std::filesystem::path& folder) {
  return FileDataset(find_files(folder, {".bin"}), read_spectrum);
}
// end

TEST_CASE("reference: files, of which some are damaged") {
  const Folder temporary("reference_files");
  const std::filesystem::path& folder = temporary.root;
  for (const char* name : {"a.bin", "b.bin", "c.bin"}) temporary.write(name, std::string(32, '\0'));
  temporary.write("d.bin", "short");
  Printed printed;
  // example: SkipBad, SkipBadOptions, BadEntry
  SkipBadOptions options{.max = 20};  // more damaged files than these are an error
  SkipBad dataset(spectra(folder), options);
  DataLoader loader{&dataset, {.batch_size = 4}};
  for (auto& batch : loader) std::cout << batch.size(0) << " rows\n";
  for (const BadEntry& bad : dataset.bad()) std::cout << bad.index << ": " << bad.message << '\n';
  // end
  const std::string text = printed.text();
  CHECK((contains(text, "3 rows") && contains(text, "d.bin")));
}

}  // namespace test::reference::of_files
