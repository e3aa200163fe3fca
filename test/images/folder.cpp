// Folders of images are listed and read as torchvision's ImageFolder does; what is missing, mixed
// up or damaged is an error with its path, or is left out and counted.
#include "encode.hpp"
#include "temporary.hpp"
#include "test.hpp"

#include <ikebana/data/loader.hpp>
#include <ikebana/files/skip_bad.hpp>
#include <ikebana/images/folder.hpp>
#include <thread>

using namespace ikebana;
using namespace ikebana::images;
namespace fs = std::filesystem;

namespace test::images::folder {

std::string image(int value) { return png(at::full({4, 5, 3}, value, at::kByte)); }

/// Two classes; the pixels of each image have one value.
Folder animals(const std::string& name) {
  Folder folder(name);
  folder.write("dog/b.png", image(1));
  folder.write("dog/a.PNG", image(2));
  folder.write("cat/x-y/2.png", image(3));
  folder.write("cat/x/1.png", image(4));
  folder.write("cat/z.png", image(5));
  folder.write("cat/.hidden.png", "no image");
  folder.write("cat/notes.txt", "no image");
  folder.write(".ipynb_checkpoints/c.png", "no image");
  return folder;
}

template <class E = BadFile>
std::string error_of(const fs::path& root, const ImageFolderOptions& options = {}) {
  return message_of<E>([&] { ImageFolder(root, {}, options); });
}

TEST_CASE("folder: classes are the sorted folders, and samples have torchvision's order") {
  const Folder folder = animals("order");
  const ImageFolder dataset(folder.root);
  CHECK(dataset.classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(dataset.class_to_idx() == std::map<std::string, std::int64_t>{{"cat", 0}, {"dog", 1}});
  REQUIRE(dataset.size() == 5);
  const std::pair<const char*, int> expected[] = {{"cat/z.png", 5},
                                                  {"cat/x/1.png", 4},
                                                  {"cat/x-y/2.png", 3},
                                                  {"dog/a.PNG", 2},
                                                  {"dog/b.png", 1}};
  // Python sorts folders as text: `cat`, `cat/x`, `cat/x-y`.
  for (std::int64_t i = 0; i < 5; ++i) {
    const auto& [path, value] = expected[i];
    CHECK(dataset.samples()[std::size_t(i)].path == (folder.root / path).string());
    const LabelledImage sample = dataset.get(i);
    CHECK(at::equal(sample.input, at::full({3, 4, 5}, value, at::kByte)));
    CHECK(sample.target.dim() == 0);
    CHECK(sample.target.item<std::int64_t>() == (i < 3 ? 0 : 1));
  }
  CHECK(contains(message_of<BadValue>([&] { dataset.get(5); }),
                 "ImageFolder: the index is 5, and there are 5 samples. Use 0 to 4."));
  CHECK(contains(message_of<BadValue>([&] { dataset.get(-1); }), "the index is -1"));
}

TEST_CASE("folder: a loader collates the samples, with a transform that may draw numbers") {
  const Folder folder = animals("loader");
  const ImageFolder plain(folder.root, [](const at::Tensor& x) { return x.to(at::kFloat); });
  DataLoader loader(plain, {.batch_size = 5});
  CHECK(!loader.varies());
  for (const LabelledImage& batch : loader) {
    CHECK(batch.input.sizes() == c10::IntArrayRef{5, 3, 4, 5});
    CHECK(batch.input.dtype() == at::kFloat);
    CHECK(at::equal(batch.target, at::tensor({0, 0, 0, 1, 1})));
  }
  const auto add = [](const at::Tensor& x, SampleRng& rng) { return x + rng.randint(200); };
  const ImageFolder drawing(folder.root, add);
  std::vector<at::Tensor> all[2];
  for (std::int64_t workers : {0, 2}) {
    DataLoader drawn(&drawing, {.batch_size = 2, .shuffle = true, .num_workers = workers});
    CHECK(drawn.varies());
    for (const LabelledImage& batch : drawn) all[workers / 2].push_back(batch.input);
  }
  CHECK(same_bits(all[0], all[1]));
}

TEST_CASE("folder: given classes keep their numbers, also where a folder is missing") {
  const Folder folder = animals("classes");
  const ImageFolder dataset(folder.root, {},
                            {.classes = {"dog", "bird", "cat"}, .allow_empty = true});
  CHECK(dataset.get(0).target.item<std::int64_t>() == 0);
  CHECK(dataset.get(4).target.item<std::int64_t>() == 2);
  CHECK(contains(error_of(folder.root, {.classes = {"dog", "bird", "cat"}}),
                 "has no image of the class `bird` with an ending of .jpg, .jpeg"));
  CHECK(contains(error_of(folder.root, {.classes = {"dog"}}),
                 "holds the folder `cat`, which is none of the given classes"));
  CHECK(contains(error_of<BadValue>(folder.root, {.classes = {"dog", "cat", "dog"}}),
                 "the class `dog` is twice"));
}

TEST_CASE("folder: what is no folder of classes is refused by its reason") {
  const Folder folder("refused");
  CHECK(contains(error_of(folder.root), "is empty. It must hold one folder per class"));
  folder.write("1.png", image(1));
  CHECK(contains(error_of(folder.root), "holds files and no folders"));
  fs::create_directory(folder.root / "cat");
  CHECK(contains(error_of(folder.root), "has no image of the class `cat`"));
  CHECK(contains(error_of(folder.root, {.allow_empty = true}), "has no images. Check the path."));
  folder.write("cat/1.webp");
  folder.write("cat/1.png", image(1));
  CHECK(contains(error_of(folder.root), "cat/1.webp`, and JPEG and PNG are decoded. Convert"));
  CHECK(error_of(folder.root, {.extensions = {".png"}}).empty());
  CHECK(contains(error_of<BadValue>(folder.root, {.extensions = {"png"}}),
                 "the extension `png` does not begin with a point"));
  CHECK(contains(error_of<FileFailed>(folder.root / "none"), "cannot list"));
  const Folder parts("parts");
  parts.write("train/cat/1.png", image(1)), parts.write("val/cat/1.png", image(1));
  CHECK(contains(error_of(parts.root), "holds `train` and `val`, which are parts of a dataset"));
  fs::create_directory_symlink(parts.root, parts.root / "val/cat/again");
  CHECK(error_of(parts.root / "train").empty());
  CHECK(contains(error_of(parts.root / "val"), "again` is a link to `"));
  fs::remove(parts.root / "val/cat/again");
  fs::create_directory_symlink(parts.root / "val/cat", parts.root / "val/cat/self");
  CHECK(contains(error_of(parts.root / "val"), "self` is a link to `"));
}

TEST_CASE("folder: an error of a file or of the transform names its path") {
  const Folder folder = animals("errors");
  const fs::path bad = folder.write("dog/b.png", image(1).substr(0, 60));
  const auto fails = [](const at::Tensor& x) -> at::Tensor { return x + at::ones({77}); };
  const ImageFolder dataset(folder.root, fails);
  const std::string file = message_of<BadFile>([&] { dataset.get(4); });
  CHECK(contains(file, "images: `" + bad.string() + "` is a PNG that cannot be decoded"));
  const std::string transform = message_of<BadSample>([&] { dataset.get(0); });
  CHECK(contains(transform,
                 "ImageFolder: the transform threw for `" + (folder.root / "cat/z.png").string()));
  CHECK(contains(transform, "The size of tensor a (5) must match"));
  DataLoader loader(&dataset, {.batch_size = 1});
  loader.seek({0, 4});
  CHECK(contains(message_of<BadSample>([&] { loader.begin(); }), bad.string()));
}

TEST_CASE("files: FileDataset reads paths by a function, and errors have the path") {
  const Folder folder("files");
  for (int i = 0; i < 3; ++i) folder.write("f" + std::to_string(i) + ".Txt", std::to_string(7 * i));
  folder.write("other.bin");
  const std::vector<fs::path> paths = find_files(folder.root, {".txt"});
  REQUIRE(paths.size() == 3);
  CHECK(find_files(folder.root).size() == 4);
  const auto number = [](const fs::path& path) {
    std::ifstream in(path);
    std::int64_t n = -1;
    in >> n;
    if (n == 14) throw BadFile("fourteen");
    if (n == 7) throw std::runtime_error("seven");
    return n;
  };
  const FileDataset dataset(paths, number);
  CHECK(dataset.get(0) == 0);
  const std::string bad = message_of<BadFile>([&] { dataset.get(2); });
  CHECK(bad == "FileDataset: the function threw for `" + paths[2].string() + "`: fourteen");
  const std::string other = message_of<BadSample>([&] { dataset.get(1); });
  CHECK(other == "FileDataset: the function threw for `" + paths[1].string() +
                     "`: seven. Correct it, or remove the file.");
  CHECK(contains(message_of<BadValue>([&] { dataset.get(3); }), "FileDataset: the index is 3"));
  const auto drawing = [](const fs::path&, SampleRng& rng) { return rng.randint(1000); };
  const FileDataset random(paths, drawing);
  DataLoader loader(&random, {.batch_size = 3});
  std::vector<at::Tensor> epochs;
  while (loader.epoch() < 2)
    for (const at::Tensor& batch : loader) epochs.push_back(batch);
  CHECK(!same_bits(epochs[0], epochs[1]));
  const std::vector<fs::path> none;
  CHECK(contains(message_of<BadValue>([&] { FileDataset(none, number); }), "it has no files"));
}

TEST_CASE("files: SkipBad leaves damaged files out, counts each once and throws beyond its limit") {
  const Folder folder = animals("skip");
  folder.write("dog/a.PNG", "damaged"), folder.write("cat/x/1.png", "damaged");
  const SkipBad dataset(ImageFolder(folder.root), {.max = 2});
  for (int epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < dataset.size(); ++i) {
      const std::optional<LabelledImage> sample = dataset.get(i);
      CHECK(sample.has_value() == (i != 1 && i != 3));
      if (sample) CHECK(same_bits(sample->input, dataset.dataset().get(i).input));
    }
  CHECK(dataset.count() == 2);
  const std::vector<BadEntry> bad = dataset.bad();
  CHECK(bad[0].index == 1);
  CHECK(contains(bad[1].message, "dog/a.PNG` is neither a JPEG nor a PNG"));
  const SkipBad strict(&dataset.dataset(), {.max = 1});
  CHECK(!strict.get(3));
  const std::string error = message_of<BadFile>([&] { strict.get(1); });
  CHECK(contains(error, "SkipBad: sample 1 is bad as well, and max allows 1. It is: images: `"));
  CHECK(contains(error, "\nRepair the files, or raise max."));
  CHECK(contains(error, "\n  sample 3: images: `"));
  CHECK(contains(message_of<BadValue>([&] { SkipBad(&dataset.dataset(), {.max = -1}); }),
                 "max is -1"));
  fs::remove(folder.root / "dog/b.png");
  CHECK_THROWS_AS(dataset.get(4), FileFailed);
}

/// Every third sample is damaged, and `get` is not const.
struct Odd {
  std::int64_t size() const { return 300; }
  std::int64_t get(std::int64_t i, SampleRng& rng) {
    if (i % 3 == 0) throw BadFile("damaged");
    return i + rng.randint(1);
  }
};
TEST_CASE("files: SkipBad counts in many threads, and copies share the count") {
  SkipBad first(Odd{}, {.max = 100});
  std::vector<std::thread> threads;
  std::atomic<int> left_out = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, mine = first]() mutable {
      SampleRng rng(0);
      for (std::int64_t i = 0; i < 300; ++i) left_out += !mine.get(i, rng).has_value();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(left_out == 400);
  CHECK(first.count() == 100);
}

}  // namespace test::images::folder
