// Tests datasets of token files, and numpy's files.
#include "sets.hpp"

#include <fstream>

#include <ikebana.hpp>
#include <ikebana/files/npy.hpp>
#include <ikebana/files/token_files.hpp>

using namespace ikebana;

namespace test::data::token_files {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / ("ikebana_tokens_" + std::to_string(::getpid()));
  Folder() { fs::remove_all(path), fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path operator/(const std::string& name) const { return path / name; }
};

template <class Integer>
std::vector<Integer> tokens(std::size_t n, std::size_t first = 0) {
  std::vector<Integer> all;
  for (std::size_t i = first; i < first + n; ++i) all.push_back(Integer(i * 7919 % 50000 + 1));
  return all;
}
template <class Integer>
void write(const fs::path& path, const std::vector<Integer>& values,
           const std::vector<std::int32_t>& header = {}) {
  std::ofstream file(path, std::ios::binary);
  std::vector<std::int32_t> begin(header.empty() ? 0 : 256);
  std::copy(header.begin(), header.end(), begin.begin());
  const auto put = [&](const auto& list) {
    file.write(reinterpret_cast<const char*>(list.data()),
               std::streamsize(list.size() * sizeof(list[0])));
  };
  put(begin), put(values);
}
at::Tensor expected(std::size_t begin, std::size_t n) {
  const auto all = tokens<std::uint16_t>(n, begin);
  return at::tensor(std::vector<std::int64_t>(all.begin(), all.end()), at::kLong);
}
at::Tensor at_indices(std::vector<std::int64_t> indices) { return at::tensor(indices, at::kLong); }

TEST_CASE("token files: nanoGPT's, llm.c's and numpy's have the same windows") {
  const Folder folder;
  const auto small = tokens<std::uint16_t>(100);
  write(folder / "raw16.bin", small);
  write(folder / "raw32.bin", tokens<std::uint32_t>(100));
  write(folder / "raw64.bin", tokens<std::int64_t>(100));
  write(folder / "gpt2.bin", small, {20240520, 1, 100});
  write(folder / "llama3.bin", tokens<std::uint32_t>(100), {20240801, 7, 100});
  const at::Tensor as_long = expected(0, 100);
  for (auto [name, dtype] :
       {std::pair{"npy16.npy", at::kUInt16}, {"npy32.npy", at::kInt}, {"npy64.npy", at::kLong}})
    write_npy(folder / name, as_long.to(dtype));
  for (auto [name, dtype] : {std::pair{"raw16.bin", at::kUInt16},
                             {"raw32.bin", at::kUInt32},
                             {"raw32.bin", at::kInt},
                             {"raw64.bin", at::kLong},
                             {"gpt2.bin", at::kLong},
                             {"llama3.bin", at::kUInt16},
                             {"npy16.npy", at::kLong},
                             {"npy32.npy", at::kUInt16},
                             {"npy64.npy", at::kUInt16}})
    for (const std::int64_t length : {1, 7, 8, 9, 33, 99}) {
      CAPTURE(name);
      CAPTURE(length);
      const TokenFiles data{folder / name, {.length = length, .dtype = dtype}};
      CHECK(data.tokens() == 100);
      CHECK(data.size() == 99 / length);
      for (std::int64_t i = 0; i < data.size(); ++i) {
        const TokenBatch batch = data.get_batch(at_indices({i}));
        const auto begin = std::size_t(i * length);
        CHECK(same_bits(batch.input[0], expected(begin, std::size_t(length))));
        CHECK(same_bits(batch.target[0], expected(begin + 1, std::size_t(length))));
      }
    }
}

TEST_CASE("token files: windows at a stride lie in one shard each, and shards are sorted") {
  const Folder folder;
  write(folder / "shard_2.bin", tokens<std::uint16_t>(30, 70));
  write(folder / "shard_0.bin", tokens<std::uint16_t>(50));
  write(folder / "shard_1.bin", tokens<std::uint16_t>(10, 50));  // too short for a window
  const TokenFiles data{(folder / "shard_*.bin").string(), {.length = 16, .stride = 5}};
  CHECK(data.tokens() == 90);
  CHECK(data.size() == 7 + 3);  // begins 0 to 30 of 50 tokens, 0 to 10 of 30
  const TokenBatch batch = data.get_batch(at_indices({9, 0, 6, 7}));
  const std::size_t begins[] = {80, 0, 30, 70};
  for (std::int64_t row = 0; row < 4; ++row) {
    CHECK(same_bits(batch.input[row], expected(begins[row], 16)));
    CHECK(same_bits(batch.target[row], expected(begins[row] + 1, 16)));
  }
  CHECK(contains(message_of<BadValue>([&] { data.get_batch(at_indices({10})); }),
                 "there is no window 10; there are 10"));
}

TEST_CASE("token files: a loader resumes at the exact window, with any number of workers") {
  const Folder folder;
  write(folder / "train.bin", tokens<std::uint16_t>(1000));
  const TokenFiles data{folder / "train.bin", {.length = 8, .stride = 1}};
  const DataLoaderOptions options{.batch_size = 32, .shuffle = true, .seed = 4};
  std::vector<at::Tensor> all;
  DataLoader whole{data, options};
  for (auto& batch : whole) all.push_back(at::stack({batch.input, batch.target}));
  for (const std::int64_t workers : {0, 1, 3}) {
    auto with_workers = options;
    with_workers.num_workers = workers;
    DataLoader loader{data, with_workers};
    loader.seek({0, 5});
    std::size_t i = 5;
    for (auto& batch : loader) CHECK(same_bits(all[i++], at::stack({batch.input, batch.target})));
    CHECK(i == all.size());
  }
}

TEST_CASE("packed token files: documents end with their token, and no target crosses a border") {
  const Folder folder;
  std::vector<std::uint16_t> text{5, 6, 9, 7, 9, 9, 1, 2, 3, 4, 5, 9, 8, 7, 6, 5, 4};  // 9 ends
  write(folder / "train.bin", text);
  const PackedTokenFiles data{folder / "train.bin", 9, {.length = 8}};
  CHECK(data.size() == 2);
  CHECK(data.tokens() == 17);
  const PackedBatch batch = data.get_batch(at_indices({1, 0}));
  const auto longs = [](std::vector<std::int64_t> list) { return at::tensor(list, at::kLong); };
  CHECK(same_bits(batch.input.values(), longs({3, 4, 5, 9, 8, 7, 6, 5, 5, 6, 9, 7, 9, 9, 1, 2})));
  CHECK(same_bits(batch.target.values(),
                  longs({4, 5, 9, -100, 7, 6, 5, 4, 6, 9, -100, 9, -100, -100, 2, 3})));
  CHECK(same_bits(batch.input.offsets(), longs({0, 4, 8, 11, 13, 14, 16})));
  CHECK(same_bits(batch.input.offsets(), batch.target.offsets()));
  CHECK(
      same_bits(batch.input.positions(), longs({0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 0, 1, 0, 0, 1})));
}

TEST_CASE("token files: what cannot be right is an error that names file and cure") {
  const Folder folder;
  const auto message = [&](const fs::path& path, const TokenOptions& options = {.length = 8}) {
    return message_of<Error>([&] { TokenFiles(path.string(), options); });
  };
  write(folder / "wide.bin", tokens<std::uint32_t>(100));
  write(folder / "narrow.bin", tokens<std::uint16_t>(400));
  write(folder / "odd.bin", std::vector<char>(33, 1));
  write(folder / "empty.bin", std::vector<char>());
  write(folder / "short.bin", tokens<std::uint16_t>(8));
  write(folder / "cut.bin", tokens<std::uint16_t>(99), {20240520, 1, 100});
  write(folder / "version.bin", tokens<std::uint16_t>(100), {20240520, 2, 100});
  write_npy(folder / "table.npy", at::zeros({3, 4}, at::kLong));
  write_npy(folder / "floats.npy", at::zeros({300}));
  CHECK(contains(message(folder / "wide.bin"), "Set dtype to kUInt32 or kLong"));
  CHECK(contains(message(folder / "narrow.bin", {.length = 8, .dtype = at::kUInt32}),
                 "Set dtype to kUInt16"));
  CHECK(contains(message(folder / "odd.bin"), "has 33 bytes, which are no whole number of UInt16"));
  CHECK(contains(message(folder / "empty.bin"), "holds 0 tokens, and no window of 8 and one more"));
  CHECK(contains(message(folder / "short.bin"), "holds 8 tokens, and no window of 8 and one more"));
  CHECK(contains(message(folder / "cut.bin"), "its header says that it holds 100 tokens"));
  CHECK(contains(message(folder / "version.bin"), "header of version 2; 1 is known"));
  CHECK(contains(message(folder / "table.npy"), "is an array of Long[3, 4]. Save one dimension"));
  CHECK(contains(message(folder / "floats.npy"), "is an array of Float[300]"));
  CHECK(contains(message(folder / "none_*.bin"), "no file matches"));
  CHECK(contains(message(folder.path), "files: cannot read"));
  CHECK(contains(message(folder / "wide.bin", {.length = 0}), "length is 0"));
  CHECK(contains(message(folder / "wide.bin", {.length = 8, .dtype = at::kFloat}),
                 "dtype is Float; it must be kUInt16"));
  CHECK(contains(message_of<BadValue>([] { TokenFiles(std::vector<fs::path>()); }),
                 "the list of paths is empty"));
  const TokenFiles checked{folder / "narrow.bin", {.length = 8, .vocab_size = 40000}};
  const std::string text =
      message_of<BadFile>([&] { checked.get_batch(at::arange(checked.size())); });
  CHECK(contains(text, "has 47515 as token 6; vocab_size is 40000"));
}

TEST_CASE("token files: a file that is changed, cut off or made longer is an error, not a signal") {
  const Folder folder;
  const fs::path path = folder / "train.bin";
  for (const std::uintmax_t size : {0u, 100u, 20000u, 40000u}) {
    write(path, tokens<std::uint16_t>(10000));
    const TokenFiles data{path, {.length = 16}};
    data.get_batch(at_indices({0, 500}));
    fs::resize_file(path, size);
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(3));
    CHECK(contains(message_of<BadFile>([&] { data.get_batch(at_indices({500})); }),
                   "was changed since it was opened"));
  }
  write(path, tokens<std::uint16_t>(10000));
  const TokenFiles data{path, {.length = 16}};
  write(folder / "new.bin", tokens<std::uint16_t>(10000, 5));
  fs::rename(folder / "new.bin", path);  // the map is still of the file that was opened
  CHECK(same_bits(data.get_batch(at_indices({1})).input[0], expected(16, 16)));
}

TEST_CASE("npy: tensors of every dtype and shape come back, and rows are read alone") {
  const Folder folder;
  for (const auto dtype :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kFloat,
        at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kUInt16, at::kUInt32, at::kUInt64})
    for (const std::vector<std::int64_t>& sizes :
         {std::vector<std::int64_t>{}, {5}, {0}, {3, 4}, {2, 0, 3}, {2, 3, 4}}) {
      const at::Tensor written = at::arange(c10::multiply_integers(sizes)).view(sizes).to(dtype);
      write_npy(folder / "a.npy", written);
      CHECK(same_bits(read_npy(folder / "a.npy"), written));
      if (sizes.empty()) continue;
      const NpyRows rows(folder / "a.npy");
      CHECK(rows.size() == sizes[0]);
      for (std::int64_t i = 0; i < rows.size(); ++i) CHECK(same_bits(rows.get(i), written[i]));
      if (sizes[0] == 3)
        CHECK(same_bits(rows.get_batch(at_indices({2, 0})).view(at::kByte),
                        at::stack({written[2], written[0]}).view(at::kByte)));
    }
  write_npy(folder / "a.npy", at::arange(6).view({2, 3}).t());
  CHECK(same_bits(read_npy(folder / "a.npy"), at::arange(6).view({2, 3}).t().contiguous()));
  CHECK(contains(
      message_of<BadValue>([&] { write_npy(folder / "b.npy", at::ones({2}, at::kBFloat16)); }),
      "numpy has no BFloat16"));
  CHECK(contains(message_of<BadValue>([&] { NpyRows(folder / "a.npy").get(3); }),
                 "there is no row 3"));
}

TEST_CASE("npy: damaged files are errors, at every byte that is cut off or changed") {
  const Folder folder;
  write_npy(folder / "a.npy", at::arange(20).view({4, 5}));
  std::ifstream file(folder / "a.npy", std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  const auto read = [&](const std::string& bytes) {
    write(folder / "b.npy", std::vector<char>(bytes.begin(), bytes.end()));
    return message_of<BadFile>([&] { read_npy(folder / "b.npy"); });
  };
  for (std::size_t n = 0; n < good.size(); ++n) CHECK(!read(good.substr(0, n)).empty());
  CHECK(!read(good + "x").empty());
  for (std::size_t i = 0; i < 128; ++i)  // the header; a space may become another
    for (const char c : {'\0', '9', '(', '\xff'}) {
      std::string bad = good;
      bad[i] = c;
      read(bad);
    }
  const auto header = [&](const std::string& text) {
    std::string bytes = "\x93NUMPY";
    bytes += {1, 0, char(text.size()), 0};
    return read(bytes + text);
  };
  CHECK(contains(header("{'descr': '>i8', 'fortran_order': False, 'shape': (0,), }"),
                 "big-endian order"));
  CHECK(contains(header("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }"),
                 "has the dtype |O, for which LibTorch has none"));
  CHECK(contains(header("{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (0,), }"),
                 "is a structured array"));
  CHECK(contains(header("{'descr': '<i8', 'fortran_order': False, 'shape': "
                        "(4611686018427387904, 4), }"),
                 "more than a file can have"));
  CHECK(header("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }")
            .empty());
  CHECK(contains(header("{'descr': '<i8', 'shape': (0,), }"), "has a damaged header"));
  CHECK(contains(header("{'descr': '<i8', 'fortran_order': Maybe, 'shape': (0,), }"),
                 "has a damaged header"));
}

}  // namespace test::data::token_files
