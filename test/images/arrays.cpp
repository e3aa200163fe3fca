// IDX files, MNIST and CIFAR give the values that were written, gzipped or not, in every layout of
// folders; a file that is cut off, damaged or of another set is an error with its path.
#include "mutate.hpp"
#include "temporary.hpp"
#include "test.hpp"

#include <ikebana/data/loader.hpp>
#include <ikebana/images/cifar.hpp>
#include <ikebana/images/collate.hpp>
#include <ikebana/images/idx.hpp>

#include <zlib.h>

using namespace ikebana;
using namespace ikebana::images;
namespace fs = std::filesystem;

namespace test::images::arrays {

/// Returns the tensor as an IDX file.
std::string idx(const at::Tensor& values) {
  const std::map<at::ScalarType, int> codes = {{at::kByte, 8}, {at::kChar, 9},   {at::kShort, 11},
                                               {at::kInt, 12}, {at::kFloat, 13}, {at::kDouble, 14}};
  std::string file(2, '\0');
  file += static_cast<char>(codes.at(values.scalar_type()));
  file += static_cast<char>(values.dim());
  for (const std::int64_t n : values.sizes())
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(n >> shift & 0xff);
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  const std::size_t size = c10::elementSize(values.scalar_type());
  for (std::size_t i = 0; i < values.nbytes(); ++i)
    file += bytes[i / size * size + size - 1 - i % size];
  return file;
}

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(bytes.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

template <class F>
std::string error_of(F f) {
  return message_of<BadFile>(f);
}

TEST_CASE("idx: every type and gzip give the values") {
  const Folder folder("idx");
  const at::Tensor values = (at::arange(2 * 3 * 50) - 150).view({2, 3, 50});
  for (auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kFloat, at::kDouble}) {
    const at::Tensor expected = (values * (dtype == at::kFloat ? 0.3 : 1)).to(dtype);
    CHECK(same_bits(read_idx(folder.write("a", idx(expected))), expected));
    CHECK(same_bits(read_idx(folder.write("b", gzipped(idx(expected)))), expected));
  }
  const at::Tensor none = at::empty({0, 28}, at::kByte), one = at::scalar_tensor(7, at::kInt);
  CHECK(same_bits(read_idx(folder.write("c", idx(none))), none));
  CHECK(same_bits(read_idx(folder.write("d", idx(one))), one));
  const std::string two = gzipped(idx(values.to(at::kInt)).substr(0, 100));
  const std::string members = two + gzipped(idx(values.to(at::kInt)).substr(100));
  CHECK(same_bits(read_idx(folder.write("e", members)), values.to(at::kInt)));
}

TEST_CASE("idx: a file that is cut off, too long or damaged is an error with its path") {
  const Folder folder("idx_bad");
  const std::string file = idx(at::arange(60, at::kInt).view({4, 15})), packed = gzipped(file);
  auto read = [&](const std::string& bytes) {
    const fs::path path = folder.write("file", bytes);
    const std::string error = error_of([&] { read_idx(path); });
    CHECK((error.empty() || contains(error, "`" + path.string() + "`")));
    return error;
  };
  for (std::size_t n = 0; n < file.size(); ++n) CHECK(!read(file.substr(0, n)).empty());
  for (std::size_t n = 0; n < packed.size(); ++n) CHECK(!read(packed.substr(0, n)).empty());
  for (std::size_t i = 10; i < packed.size(); ++i) {
    std::string changed = packed;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    CHECK(!read(changed).empty());  // by its checksum
  }
  CHECK(contains(read("PNG is this"), "is no IDX file"));
  CHECK(contains(read(std::string("\0\0\x7\1", 4)), "byte 2 is 7, which is no type of IDX"));
  CHECK(contains(read(file.substr(0, 7)), "ends in its header of 12 bytes, after byte 7"));
  CHECK(contains(read(file.substr(0, 100)), "Int[4, 15] has 240 bytes, and there are only 88."));
  CHECK(contains(read(file + "1"), "Int[4, 15] has 240 bytes, and there are more."));
  CHECK(contains(read(gzipped(file + "1")), "and there are more."));
  CHECK(
      contains(read(packed.substr(0, 30)), "is gzipped and damaged: it ends early (near byte 30"));
  CHECK(contains(read(packed + "more"), "is gzipped and damaged: incorrect header check"));
  const std::string huge = std::string("\0\0\x8\4", 4) + std::string(16, '\x7f');
  CHECK(contains(read(huge), "are more than memory can hold"));
  CHECK(contains(read(gzipped(huge)), "are more than memory can hold"));
  const std::uint64_t count = is_thorough() ? 50000 : 200;
  std::size_t whole = 0;
  for (std::uint64_t seed = 0; seed < count; ++seed)
    whole += read(mutated(seed % 2 ? file : packed, seed)).empty();
  CHECK(whole < count);
  CHECK(contains(message_of<FileFailed>([&] { read_idx(folder.root / "none"); }), "none"));
}

/// Writes the files of MNIST, in which pixels of image i are i.
void write_mnist(const Folder& folder, const std::string& place, const std::string& ending,
                 const std::string& separator = "-") {
  for (auto [part, count] : {std::pair{"train", 7}, {"t10k", 4}}) {
    const at::Tensor numbers = at::arange(count, at::kByte);
    const std::string images = idx(numbers.view({-1, 1, 1}).expand({-1, 28, 28}).contiguous());
    const std::string labels = idx(numbers % 3), name = place + part;
    const bool packed = !ending.empty();
    folder.write(name + "-images" + separator + "idx3-ubyte" + ending,
                 packed ? gzipped(images) : images);
    folder.write(name + "-labels" + separator + "idx1-ubyte" + ending,
                 packed ? gzipped(labels) : labels);
  }
}

TEST_CASE("MNIST: it is found in every usual layout") {
  for (const char* place : {"", "raw/", "MNIST/raw/"})
    for (const char* ending : {"", ".gz"})
      for (const char* separator : {"-", "."}) {
        const Folder folder("mnist");
        write_mnist(folder, place, ending, separator);
        const MNIST training(folder.root), tests(folder.root, {.train = false});
        CHECK(training.size() == 7);
        CHECK(tests.size() == 4);
        const LabelledImage batch = training.get_batch(at::tensor({6, 2}));
        const at::Tensor expected = at::tensor({6, 2}, at::kByte).view({2, 1, 1, 1});
        CHECK(at::equal(batch.input, expected.expand({-1, -1, 28, 28})));
        CHECK(at::equal(batch.target, at::tensor({0, 2})));
        CHECK(training.classes().size() == 10);
      }
}

TEST_CASE("MNIST: a loader gives its batches, with and without a transform") {
  const Folder folder("mnist_loader");
  write_mnist(folder, "", ".gz");
  const MNIST plain(folder.root);
  DataLoader whole(&plain, {.batch_size = 7});
  for (const LabelledImage& batch : whole) CHECK(same_bits(batch.input, plain.images()));
  const auto scale = [](const at::Tensor& x) { return x.to(at::kFloat) / 255; };
  const FashionMNIST scaled(([&] {
                              write_mnist(folder, "FashionMNIST/raw/", "");
                              return folder.root / "FashionMNIST";
                            })(),
                            {.train = true}, scale);
  CHECK(scaled.classes()[9] == "Ankle boot");
  DataLoader loader(&scaled, {.batch_size = 7});
  for (const LabelledImage& batch : loader) {
    CHECK(same_bits(batch.input, scale(plain.images())));
    CHECK(same_bits(batch.target, plain.targets()));
  }
  const auto noise = [](const at::Tensor& x, SampleRng& rng) { return x + rng.randint(100); };
  const MNIST drawing(folder.root, {}, noise);
  CHECK(DataLoader(&drawing, {.batch_size = 7}).varies());
  CHECK(contains(message_of<BadValue>([&] { scaled.get(7); }), "FashionMNIST: the index is 7"));
}

TEST_CASE("MNIST: files that are missing or of two sets are errors") {
  const Folder folder("mnist_bad");
  write_mnist(folder, "", "");
  CHECK(contains(error_of([&] { MNIST(folder.root / "none"); }),
                 "MNIST: there is no `train-images-idx3-ubyte`, also with .gz, in `"));
  fs::copy_file(folder.root / "t10k-labels-idx1-ubyte", folder.root / "train-labels-idx1-ubyte",
                fs::copy_options::overwrite_existing);
  CHECK(contains(error_of([&] { MNIST(folder.root); }), "holds Byte[4], and there are 7 images"));
  folder.write("train-labels-idx1-ubyte", idx(at::arange(20, 27, at::kByte)));
  CHECK(contains(error_of([&] { MNIST(folder.root); }), "has the label 26, and there are 10"));
  folder.write("train-images-idx3-ubyte", idx(at::zeros({7, 2}, at::kByte)));
  CHECK(contains(error_of([&] { MNIST(folder.root); }), "holds Byte[7, 2], and images are Byte"));
}

/// Returns records of labels and pixels; the pixels of image i are first + i.
std::string records(std::initializer_list<int> labels, std::size_t each = 1, int first = 0) {
  std::string file;
  std::size_t i = 0;
  for (const int label : labels) {
    file += static_cast<char>(label);
    if (++i % each == 0) file += std::string(3072, static_cast<char>(first++));
  }
  return file;
}

TEST_CASE("CIFAR: the batches that are there are read, with the names of the classes") {
  const Folder folder("cifar");
  std::string names;
  for (int i = 0; i < 10; ++i) names += "class" + std::to_string(i) + "\r\n";
  folder.write("cifar-10-batches-bin/batches.meta.txt", names + "\n");
  folder.write("cifar-10-batches-bin/data_batch_1.bin", records({3, 9}));
  folder.write("cifar-10-batches-bin/data_batch_4.bin", records({0}, 1, 2));
  folder.write("cifar-10-batches-bin/test_batch.bin", records({5}, 1, 77));
  for (const fs::path& place : {folder.root, folder.root / "cifar-10-batches-bin"}) {
    const CIFAR10 training(place), tests(place, {.train = false});
    REQUIRE(training.size() == 3);
    CHECK(at::equal(training.targets(), at::tensor({3, 9, 0})));
    const at::Tensor values = at::arange(3, at::kByte).view({3, 1, 1, 1});
    CHECK(at::equal(training.images(), values.expand({-1, 3, 32, 32})));
    CHECK(training.classes()[9] == "class9");
    CHECK(at::equal(tests.get(0).input, at::full({3, 32, 32}, 77, at::kByte)));
  }
  folder.write("cifar-10-batches-bin/batches.meta.txt", "one\ntwo\n");
  CHECK(contains(error_of([&] { CIFAR10(folder.root); }), "has 2 names, and there are 10 classes"));
  fs::remove(folder.root / "cifar-10-batches-bin/batches.meta.txt");
  CHECK(CIFAR10(folder.root).classes()[3] == "3");
  folder.write("cifar-10-batches-bin/data_batch_4.bin", records({0, 10}));
  CHECK(
      contains(error_of([&] { CIFAR10(folder.root); }), "has the label 10 in image 1, and there"));
  folder.write("cifar-10-batches-bin/data_batch_4.bin", records({0, 1}).substr(0, 4000));
  CHECK(contains(error_of([&] { CIFAR10(folder.root); }), "has 4000 bytes, and an image with its"));
  CHECK(contains(error_of([&] { CIFAR10(folder.root / "none"); }),
                 "CIFAR10: there is no `data_batch_1.bin` in `"));
  folder.write("cifar-10-batches-py/data_batch_1");
  const fs::path python = folder.root / "cifar-10-batches-py";
  CHECK(contains(error_of([&] { CIFAR10{python}; }), "These are the files for Python."));
}

TEST_CASE("CIFAR: CIFAR-100 has fine and coarse labels") {
  const Folder folder("cifar100");
  folder.write("cifar-100-binary/train.bin", records({19, 99, 4, 7}, 2));
  const CIFAR100 fine(folder.root), coarse(folder.root, {.fine_labels = false});
  CHECK(at::equal(fine.targets(), at::tensor({99, 7})));
  CHECK(at::equal(coarse.targets(), at::tensor({19, 4})));
  CHECK(fine.classes().size() == 100);
  CHECK(coarse.classes().size() == 20);
  CHECK(same_bits(fine.images(), coarse.images()));
}

struct Masked {
  at::Tensor input, mask, target, boxes;
};
TEST_CASE("collate: ChannelsLastCollate keeps the layout and the values of DefaultCollate") {
  const auto image = [](std::int64_t channels, int n) {
    return at::arange(channels * 20 + n, at::kInt)
        .narrow(0, n, channels * 20)
        .view({4, 5, channels})
        .permute({2, 0, 1});
  };
  std::vector<Masked> samples;
  for (int n = 0; n < 3; ++n)
    samples.push_back({image(3, n), at::full({2, 4, 5}, n), at::scalar_tensor(n, at::kLong), {}});
  const at::Tensor indices = at::arange(3);
  const Masked plain = DefaultCollate{}(samples, indices),
               batch = ChannelsLastCollate{}(samples, indices);
  CHECK(batch.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(plain.input.is_contiguous());
  CHECK(batch.mask.is_contiguous());
  CHECK(!batch.boxes.defined());
  CHECK(at::equal(batch.input, plain.input));
  CHECK(at::equal(batch.mask, plain.mask));
  CHECK(at::equal(batch.target, plain.target));
  std::vector<Masked> crops = samples;
  for (Masked& crop : crops) crop.input = crop.input.narrow(1, 1, 2).narrow(2, 2, 3).flip(2);
  const at::Tensor cropped = ChannelsLastCollate{}(crops, indices).input;
  CHECK(cropped.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(at::equal(cropped, plain.input.narrow(2, 1, 2).narrow(3, 2, 3).flip(3)));
  samples[1].input = samples[1].input.contiguous();  // one lies otherwise: as DefaultCollate
  const at::Tensor mixed = ChannelsLastCollate{}(samples, indices).input;
  CHECK(mixed.is_contiguous());
  CHECK(at::equal(mixed, plain.input));
  samples[2].input = image(1, 0);
  const auto message = [&](const auto& collate) {
    return message_of<BadBatch>([&] { collate(samples, indices); });
  };
  CHECK(contains(message(ChannelsLastCollate{}), "is Int[3, 4, 5] on cpu in sample 0, and Int[1"));
  CHECK(message(ChannelsLastCollate{}) == message(DefaultCollate{}));
}

}  // namespace test::images::arrays
