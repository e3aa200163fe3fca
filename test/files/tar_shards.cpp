// TarShards: which files are a sample, resuming by the loader, and damaged shards.
#include <ikebana/data/loader.hpp>
#include <ikebana/files/tar_shards.hpp>
#include "tar_files.hpp"

using namespace ikebana;

namespace test::files::tar {

namespace {

std::string shard_of(int first, int count) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    const std::string key = "s/" + std::to_string(i);
    bytes += tar_member(key + ".x.bin", std::string(std::size_t(i % 3) * 300, char('a' + i % 26)));
    bytes += tar_member(key + ".cls", std::to_string(i) + "\n");
  }
  return bytes + tar_end();
}
std::string error_of(const std::string& bytes) {
  return message_of<Error>([&] { TarShards shards(write_file(bytes, "one.tar")); });
}

}  // namespace

TEST_CASE("tar shards: files that share a name up to the first dot are a sample") {
  const std::string path = write_file(
      tar_member("a.b/0001.JPG", "image") + tar_member("a.b/0001.seg.png", std::string(1000, 'm')) +
          tar_member("a.b/0002.jpg", "") + tar_member("README", "x") + tar_member("a.b", "", '5') +
          tar_member("a.b/.hidden.jpg", "x") + tar_member("__meta__/x.json", "x") +
          tar_member("a.b/0001.cls", " 7\n") + tar_member("0001.jpg", "other") + tar_end(),
      "samples.tar");
  const TarShards shards(path);
  CHECK(shards.size() == 3);
  const TarSample sample = shards.get(0);
  CHECK(sample.key == "a.b/0001");
  CHECK(sample.shard == path);
  CHECK(sample["jpg"] == "image");
  CHECK(sample["seg.png"] == std::string(1000, 'm'));
  CHECK(sample.integer("cls") == 7);
  CHECK(shards.get(1).files == std::map<std::string, std::string>{{"jpg", ""}});
  CHECK(shards.key(2) == "0001");
  CHECK(!sample.has("png"));
  CHECK(contains(
      message_of<BadFile>([&] { sample["png"]; }),
      "sample `a.b/0001` of `" + path + "` has no file `png`, only `cls`, `jpg`, `seg.png`"));
  CHECK(contains(message_of<BadFile>([&] { sample.integer("jpg"); }),
                 "is \"image\", which is no integer"));
  CHECK(contains(message_of<BadValue>([&] { shards.get(3); }),
                 "there is no sample 3; indices are 0 to 2"));
}

TEST_CASE("tar shards: a loader shuffles, resumes and divides them as any dataset") {
  for (int i = 0; i < 3; ++i)
    write_file(shard_of(i * 7, 7), "part-00" + std::to_string(i) + ".tar");
  const std::string folder = std::filesystem::path(write_file("", "x")).parent_path().string();
  auto decode = [](const TarSample& sample) {
    const double length = double(sample["x.bin"].size());
    return std::pair(at::tensor({length}), sample.integer("cls"));
  };
  const TarShards shards(folder + "/part-{000..002}.tar", decode);
  CHECK(shards.size() == 21);
  CHECK(TarShards(folder + "/part-*.tar").size() == 21);
  CHECK(TarShards(std::vector<std::string>{folder + "/part-001.tar"}).key(0) == "s/7");
  CHECK(TarShards(folder + "/part-{000,002}.tar").size() == 14);
  auto classes = [&](auto& loader, int batches) {
    std::vector<std::int64_t> all;
    for (auto& [x, y] : loader) {
      for (std::int64_t i = 0; i < y.size(0); ++i) {
        const auto c = y[i].template item<std::int64_t>();
        CHECK(x[i].template item<double>() == double(c % 3) * 300);
        all.push_back(c);
      }
      if (--batches == 0) break;
    }
    return all;
  };
  DataLoader whole{shards, {.batch_size = 4, .shuffle = true, .seed = 3}};
  const auto expected = classes(whole, 100);
  CHECK(expected.size() == 21);
  DataLoader parted{shards, {.batch_size = 4, .shuffle = true, .num_workers = 2, .seed = 3}};
  auto seen = classes(parted, 2);
  DataLoader resumed{shards, {.batch_size = 4, .shuffle = true, .num_workers = 3, .seed = 3}};
  resumed.seek(parted.position());
  for (auto c : classes(resumed, 100)) seen.push_back(c);
  CHECK(seen == expected);
}

TEST_CASE("tar shards: random numbers of a sample are the loader's") {
  const std::string path = write_file(shard_of(0, 7), "random.tar");
  auto random = [](const TarSample& sample, SampleRng& rng) {
    return std::pair(sample.integer("cls"), rng.uniform());
  };
  TarShards augmented(path, random);
  DataLoader once{augmented, {.batch_size = 7}}, again{augmented, {.batch_size = 7}};
  for (auto& batch : once)
    for (auto& other : again) CHECK(same_bits(batch.second, other.second));
}

TEST_CASE("tar shards: a damaged, cut-off or changed shard is an error with its path and byte") {
  const std::string good = shard_of(0, 3);
  CHECK(error_of(good).empty());
  CHECK(contains(error_of(good.substr(0, good.size() - 1024)),
                 "one.tar`, byte 6144: the file is cut off: its end mark is missing"));
  CHECK(contains(error_of(good.substr(0, 1700)), "the file is cut off"));
  CHECK(contains(error_of(tar_member("a.x", std::string(600, 'x')).substr(0, 1000)),
                 "cut off in \"a.x\""));
  std::string changed = good;
  changed[1536] = 'X';
  CHECK(contains(error_of(changed), "byte 1536: the checksum of a header is wrong"));
  CHECK(contains(error_of("no tar file" + std::string(1024, 'x')), "it is no tar file"));
  CHECK(contains(error_of("\x1f\x8b" + std::string(1024, 'x')), "compressed by gzip"));
  CHECK(contains(error_of(good + good), "bytes follow the end mark"));
  CHECK(contains(error_of(""), "cut off"));
  CHECK(contains(error_of(tar_member("README", "x") + tar_end()), "has a sample"));
  CHECK(contains(error_of(tar_member("a.x", "1") + tar_member("b.y", "1") + tar_member("a.X", "2") +
                          tar_end()),
                 "has the file \"a.X\" twice"));
  CHECK(contains(error_of(tar_member("a.x", "", '2')), "\"a.x\" is a link, and has no bytes"));
  CHECK(contains(error_of(tar_member("a.x", "", '1')), "is a link"));
  CHECK(contains(error_of(tar_member("a.x", "", 'S')), "is a sparse file"));
  CHECK(contains(error_of(tar_member("a.x", "", '3')), "is of type \"3\""));
}

TEST_CASE("tar shards: damaged pax records and long names are errors") {
  auto pax = [](const std::string& records, char type = 'x') {
    return error_of(tar_member("pax", records, type) + tar_member("a.x", "12345") + tar_end());
  };
  CHECK(pax("10 size=3\n").empty());
  CHECK(contains(pax("22 GNU.sparse.major=1\n"), "is sparse"));
  CHECK(contains(pax("10 size=x\n"), "is no size"));
  CHECK(contains(pax("11 size=3\n"), "a pax record is damaged"));
  CHECK(contains(pax("x"), "a pax record is damaged"));
  CHECK(contains(pax("10 path=a\n", 'g'), "a global pax record"));
  CHECK(pax("14 comment=ab\n", 'g').empty());
  CHECK(contains(error_of(tar_member("n", std::string((1 << 20) + 1, 'n'), 'L')),
                 "a name of 1048577 bytes"));
  CHECK(contains(error_of(tar_member("n", "some name", 'L').substr(0, 512)),
                 "cut off in a long name"));
  std::string number = tar_member("a.x", "");
  number[124] = '9', number[148 + 5] = char(number[148 + 5] + 1);
  CHECK(contains(error_of(number), "byte 0: "));
}

TEST_CASE("tar shards: a shard that changed or went away after its headers were read is an error") {
  const std::string good = shard_of(0, 3);
  const std::string path = write_file(good, "later.tar");
  const TarShards shards(path);
  CHECK(shards.get(1)["cls"] == "1\n");
  write_file(good + std::string(512, '\0'), "later.tar");
  CHECK(contains(message_of<BadFile>([&] { shards.get(1); }), "later.tar` has changed since"));
  std::filesystem::remove(path);
  CHECK(contains(message_of<FileFailed>([&] { shards.get(1); }), "later.tar"));
}

TEST_CASE("tar shards: numbers in base 256 are sizes, and too large ones are errors") {
  auto with_size = [](std::string size) {
    std::string member = tar_member("a.x", "12345");
    member.replace(124, 12, size);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < 512; ++i)
      sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(member[i]);
    char text[8];
    std::snprintf(text, sizeof text, "%06zo", sum);
    return error_of(member.replace(148, 7, std::string(text, 7)) + tar_end());
  };
  CHECK(with_size("\x80" + std::string(10, '\0') + "\x05").empty());
  CHECK(contains(with_size("\x80" + std::string(11, '\xff')), "a size is too large"));
  CHECK(contains(with_size(std::string(12, '8')), "is no octal number"));
}

TEST_CASE("tar shards: patterns that name no files are errors") {
  auto error = [](const std::string& pattern) {
    return message_of<BadValue>([&] { ShardPaths paths(pattern); });
  };
  CHECK(ikebana::detail::expanded_braces("{a,b}-{08..10}.tar") ==
        std::vector<std::string>{"a-08.tar", "a-09.tar", "a-10.tar", "b-08.tar", "b-09.tar",
                                 "b-10.tar"});
  for (const char* pattern :
       {"{0..}.tar", "{3..1}.tar", "{a}.tar", "a{0..1", "a}.tar", "{a..b}.tar", "{{0..1},2}",
        "{0..99999999999}.tar", "{0..9999999999999999999}"})
    CHECK(contains(error(pattern), "are neither a range such as {000..127} nor a list"));
  CHECK(contains(error("/tmp/no-such-*.tar"), "no file matches `/tmp/no-such-*.tar`"));
  CHECK(contains(error("https://a.b/c.tar"), "is no path of files"));
  CHECK(contains(error("{a,./a}.tar"), "comes twice"));
  CHECK(contains(message_of<BadValue>([] { ShardPaths(std::vector<std::string>{}); }),
                 "the list of paths is empty"));
}

TEST_CASE("tar shards: changed bytes give samples or an error, and never a crash") {
  const std::string good = tar_member("pax", "20 path=a/b/c/d.jpg\n", 'x') +
                           tar_member("a.x", "12345") +
                           tar_member("long", "some/long/name.cls", 'L') + shard_of(0, 2);
  std::mt19937 random(2);
  int errors = 0;
  const int count = is_thorough() ? 20000 : 500;
  for (int i = 0; i < count; ++i) {
    std::string changed = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at =
          random() % 5 == 0 ? random() % changed.size() : 512 * (random() % 6) + random() % 160;
      changed[at] = char(random() % 3 == 0 ? '0' + random() % 10 : random() % 256);
    }
    const std::size_t block = 512 * (random() % (changed.size() / 512));  // a right checksum
    std::size_t sum = 0;
    for (std::size_t j = 0; j < 512; ++j)
      sum += j >= 148 && j < 156 ? ' ' : static_cast<unsigned char>(changed[block + j]);
    char text[24];
    std::snprintf(text, sizeof text, "%06zo", sum);
    changed.replace(block + 148, 7, std::string(text, 7));
    try {
      const TarShards shards(write_file(changed, "changed.tar"));
      for (std::int64_t j = 0; j < shards.size(); ++j) shards.get(j);
    } catch (const Error&) {
      ++errors;
    }
  }
  CHECK(errors > count / 10);
}

}  // namespace test::files::tar
