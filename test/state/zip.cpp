// Zip archives: what is written is read again, and whatever is wrong with an archive is an error
// that names it.
#include <ikebana/error.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/zip_reader.hpp>
#include <ikebana/state/files/zip_writer.hpp>
#include <random>

#include "state/sparse_files.hpp"
#include "test.hpp"

using namespace ikebana;
using ikebana::detail::ZipEntry;
using ikebana::detail::ZipReader;
using ikebana::detail::ZipWriter;

namespace test::zip {

using Texts = std::map<std::string, std::string>;

std::string noise(std::size_t n) {
  std::mt19937_64 random(n);
  std::string text(n, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}
ZipWriter writer_of(const Texts& texts) {
  ZipWriter writer("model");
  for (const auto& [name, text] : texts) writer.add(name, text);
  return writer;
}
/// Returns the contents of an archive, each entry checked.
Texts read(Files& files, const Files::Path& path = "a.pt2") {
  ZipReader reader(files, path);
  Texts texts;
  for (const ZipEntry& e : reader.entries()) texts[e.name] = reader.text(e.name, e.size);
  return texts;
}

TEST_CASE("zip: entries are read as they were written, aligned, and equal in equal archives") {
  const std::size_t mib = 1 << 20;
  const Texts texts{{"models/model.json", "{}"},       {"empty", ""},
                    {"data/weights/w0", noise(1000)},  {"chunk", noise(mib)},
                    {"more", noise(2 * mib + 1)},      {".data/version", "6\n"},
                    {"\xc3\xbc \xe6\xbc\xa2", "name"}, {std::string(1000, 'n'), "x"}};
  SparseFiles files;
  writer_of(texts).write(files, "a.pt2");
  CHECK(files.size("a.pt2") == writer_of(texts).size());
  CHECK(read(files) == texts);
  ZipReader reader(files, "a.pt2");
  CHECK(reader.root() == "model");
  CHECK(reader.entries().size() == texts.size());
  for (const auto& [name, text] : texts) {
    CHECK(reader.has(name));
    CHECK(reader.size(name) == text.size());
    CHECK(reader.crc(name) == ikebana::detail::crc32(0, text.data(), text.size()));
    CHECK(reader.entry(name).begin % 64 == 0);
  }
  CHECK(!reader.has("model/empty"));
  reader.check_all();
  writer_of(texts).write(files, "b.pt2");
  CHECK(files.bytes("a.pt2") == files.bytes("b.pt2"));
  CHECK(!files.exists("a.pt2.ikebana-former"));
}

TEST_CASE("zip: an entry is read whole, and is as long as the caller needs it") {
  SparseFiles files;
  writer_of({{"w", "12345678"}}).write(files, "a.pt2");
  ZipReader reader(files, "a.pt2");
  double number = 0;
  reader.read("w", &number, 8);
  CHECK(std::memcmp(&number, "12345678", 8) == 0);
  CHECK(
      contains(message_of<BadFile>([&] { reader.read("w", &number, 4); }),
               "load: `a.pt2` is damaged or not a zip archive, at byte 64: `w` has 8 bytes, and 4 "
               "are needed. Use another copy"));
  CHECK(contains(message_of<BadFile>([&] { reader.text("w", 7); }),
                 "`w` has 8 bytes, more than a reader's limit of 7"));
  CHECK(
      contains(message_of<BadFile>([&] { reader.entry("v"); }), "`a.pt2` has no entry `v`. Name"));
}

TEST_CASE("zip: a source gives its bytes in any pieces, and exactly as many as announced") {
  const std::string text = noise(3'000'000);
  for (const std::size_t piece : {std::size_t{7777}, text.size()}) {
    SparseFiles files;
    ZipWriter writer("m");
    writer.add("w", text.size(), [&](const ZipWriter::Sink& sink) {
      for (std::size_t at = 0; at < text.size(); at += piece)
        sink(text.data() + at, std::min(piece, text.size() - at));
    });
    writer.write(files, "a.pt2");
    CHECK(read(files) == Texts{{"w", text}});
  }
  for (const std::size_t n : {std::size_t{4}, std::size_t{6}}) {
    SparseFiles files;
    files.put("a.pt2", "before");
    ZipWriter writer("m");
    writer.add("w", 5, [&](const ZipWriter::Sink& sink) { sink(text.data(), n); });
    CHECK(contains(message_of<Error>([&] { writer.write(files, "a.pt2"); }), "another size"));
    CHECK(files.bytes("a.pt2") == "before");
    CHECK(!files.exists("a.pt2.ikebana-new"));
  }
}

TEST_CASE("zip: an entry beyond 4 GiB and those behind it are written and read") {
  const std::uint64_t size = (std::uint64_t{4} << 30) + 5;
  SparseFiles files;
  ZipWriter writer("m");
  writer.add("first", "1");
  writer.add("large", size, [&](const ZipWriter::Sink& sink) {
    const std::string zeros(1 << 20, '\0');
    for (std::uint64_t at = 0; at < size - 5; at += zeros.size()) sink(zeros.data(), zeros.size());
    sink("12345", 5);
  });
  writer.add("last", "2");
  writer.write(files, "a.pt2");
  CHECK(files.size("a.pt2") == writer.size());
  ZipReader reader(files, "a.pt2");
  CHECK(reader.size("large") == size);
  CHECK(reader.entry("last").begin > size);
  CHECK(reader.text("first", 1) == "1");
  CHECK(reader.text("last", 1) == "2");
  std::string end(5, '\0');
  files.open("a.pt2")->read(reader.entry("large").begin + size - 5, end.data(), 5);
  CHECK(end == "12345");
}

TEST_CASE("zip: an archive may have more entries than 16 bits count") {
  for (const int count : {65'534, 65'535}) {
    SparseFiles files;
    ZipWriter writer("m");
    for (int i = 0; i < count; ++i) writer.add(std::to_string(i), "");
    writer.write(files, "a.pt2");
    CHECK(files.size("a.pt2") == writer.size());
    CHECK(ZipReader(files, "a.pt2").entries().size() == static_cast<std::size_t>(count));
  }
}

TEST_CASE("zip: names that are no places within the folder are not written") {
  const auto refused = [](const std::string& name) {
    ZipWriter writer("m");
    writer.add("there", "");
    return message_of<BadValue>([&] { writer.add(name, ""); });
  };
  CHECK(refused("there") == "archive: the entry `m/there` appears twice. Use another name.");
  for (const char* name : {"/a", "a//b", ".", "..", "a/../b", "a/./b"})
    CHECK(contains(refused(name), "has an empty part, `.` or `..`"));
  for (const char* name : {"", "a/"}) CHECK(contains(refused(name), "ends with `/`"));
  CHECK(contains(refused("a\\b"), "a control character or a backslash"));
  CHECK(contains(refused(std::string("a\0b", 3)), "a control character or a backslash"));
  CHECK(contains(refused("a\xff"), "`m/a?` is not UTF-8"));
  CHECK(contains(refused(std::string(70'000, 'a')), "is longer than 65,535 bytes"));
  for (const char* root : {"", "a/b", "..", "a\n", "\xc3"})
    CHECK(contains(message_of<BadValue>([&] { ZipWriter writer(root); }),
                   "Give the name of a folder"));
}

TEST_CASE("zip: a disk that fails at any operation leaves the archive that was there") {
  const Texts former{{"a", "former"}}, next{{"a", "next"}, {"b", noise(5000)}};
  bool ended = false;
  for (std::uint64_t at = 0; !ended; ++at) {
    REQUIRE(at < 100);
    SparseFiles files;
    writer_of(former).write(files, "a.pt2");
    files.fail_at(at);
    ended = message_of<FileFailed>([&] { writer_of(next).write(files, "a.pt2"); }).empty();
    const Texts found = read(files);
    CHECK((found == former || found == next));
    if (ended) CHECK(found == next);
    // The next save succeeds, whatever the failed one left.
    files.fail_at(SparseFiles::never);
    writer_of(next).write(files, "a.pt2");
    CHECK(read(files) == next);
  }
}

TEST_CASE("zip: a damaged archive does not replace the intact one before it") {
  for (std::uint64_t at = 0; at < 20; ++at) {
    SparseFiles files;  // as a save that was interrupted leaves them
    writer_of({{"a", "former"}}).write(files, "a.pt2.ikebana-former");
    files.put("a.pt2", "damaged");
    files.fail_at(at);
    const bool failed =
        !message_of<FileFailed>([&] { writer_of({{"a", "next"}}).write(files, "a.pt2"); }).empty();
    const bool has_former = files.exists("a.pt2.ikebana-former");
    const std::string found = read(files, has_former ? "a.pt2.ikebana-former" : "a.pt2").at("a");
    CHECK(found == (has_former ? "former" : "next"));
    if (!failed) CHECK(!has_former);
  }
}

}  // namespace test::zip
