// Archives with random changes give an error, or what was written.
#include <caffe2/serialize/inline_container.h>

#include <ikebana/error.hpp>
#include <ikebana/state/files/zip_reader.hpp>
#include <ikebana/state/files/zip_writer.hpp>
#include <random>

#include "state/sparse_files.hpp"
#include "state/zip_records.hpp"
#include "test.hpp"

using namespace ikebana;
using ikebana::detail::ZipEntry;
using ikebana::detail::ZipReader;
using ikebana::detail::ZipWriter;

namespace test::zip_mutations {

using namespace test::zip_records;
using Texts = std::map<std::string, std::string>;

const Texts texts{{"models/model.json", "{\"a\": [1, 2, 3]}"},
                  {"data/weights/w0", "0123456789abcdef"},
                  {"archive_format", "pt2"},
                  {"empty", ""}};

/// Counts how changed archives were read. Anything but an error of the library, or contents other
/// than the ones that were written, fails the test.
struct Trials {
  Texts original;
  int read = 0, refused = 0;

  void operator()(const std::string& bytes) {
    SparseFiles files;
    files.put("a.pt2", bytes);
    Texts found;
    try {
      ZipReader reader(files, "a.pt2");
      for (const ZipEntry& e : reader.entries()) found[e.name] = reader.text(e.name, 1 << 20);
    } catch (const BadFile& error) {
      if (!contains(error.what(), "at byte ")) FAIL(error.what());
      ++refused;
      return;
    }
    ++read;
    if (found != original) FAIL("contents differ");
  }
};

std::string own_archive() {
  SparseFiles files;
  ZipWriter writer("model");
  for (const auto& [name, text] : texts) writer.add(name, text);
  writer.write(files, "a.pt2");
  return files.bytes("a.pt2");
}
/// Returns an archive of the class that Python's torch.export.save uses.
std::string archive_of_pytorch() {
  std::string bytes;
  const auto append = [&](const void* from, std::size_t n) {
    bytes.append(static_cast<const char*>(from), n);
    return n;
  };
  caffe2::serialize::PyTorchStreamWriter writer(append);
  for (const auto& [name, text] : texts) writer.writeRecord(name, text.data(), text.size());
  writer.writeEndOfFile();
  return bytes;
}
/// Returns an archive with all numbers in fields of 64 bits.
std::string wide_archive() {
  Archive archive({});
  for (const auto& [name, text] : texts) {
    Entry e("m/" + name, text);
    for (Fields* f : {&e.local, &e.listed}) {
      f->extra = u16(1) + u16(16) + u64(f->size) + u64(f->size);
      f->size = f->packed = 0xffffffff;
    }
    archive.entries.push_back(e);
  }
  const std::size_t all = archive.text().size() - 22, bytes = all - archive.directory;
  archive.wide = wide_end(all, texts.size(), bytes, archive.directory);
  archive.count = 0xffff, archive.bytes = archive.offset = 0xffffffff,
  archive.comment = "a comment";
  return archive.text();
}

std::vector<std::pair<std::string, Trials>> archives() {
  std::vector<std::pair<std::string, Trials>> all;
  for (const std::string& bytes : {own_archive(), archive_of_pytorch(), wide_archive()}) {
    Trials trials;
    SparseFiles files;
    files.put("a.pt2", bytes);
    ZipReader reader(files, "a.pt2");
    for (const ZipEntry& e : reader.entries())
      trials.original[e.name] = reader.text(e.name, e.size);
    for (const auto& [name, text] : texts) CHECK(trials.original.at(name) == text);
    all.emplace_back(bytes, trials);
  }
  return all;
}

TEST_CASE("zip: a truncated archive is refused") {
  for (auto& [bytes, trials] : archives()) {
    for (std::size_t n = 0; n < bytes.size(); ++n) trials(bytes.substr(0, n));
    for (std::size_t n = 1; n < bytes.size(); ++n) trials(bytes.substr(n));
    CHECK(trials.read == 0);
  }
}

TEST_CASE("zip: an archive in which any byte is another is refused, or has the same contents") {
  for (auto& [bytes, trials] : archives()) {
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (const int change : {1, 0x80, 0xff}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ change);
        trials(changed);
      }
    CHECK(trials.read > 0);  // times, attributes, padding
    CHECK(trials.refused > trials.read);
  }
}

TEST_CASE("zip: random changes of an archive are refused, or leave the contents") {
  std::mt19937_64 random(3);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::vector<std::string> fields{
      u32(0),   u32(0xffffffff), u16(0xffff),          u16(8), "PK\5\6",
      "PK\6\6", "PK\3\4",        u64(~std::size_t{0}), u32(1), u64(1)};
  for (auto& [bytes, trials] : archives())
    for (int i = 0; i < 3000; ++i) {
      std::string changed = bytes;
      for (std::size_t n = 1 + below(3); n > 0; --n) {
        const std::size_t at = below(changed.size()), length = below(60);
        const std::string part = changed.substr(at, length);
        switch (below(5)) {
          case 0:
            changed.erase(at, length);
            break;
          case 1:
            changed.insert(below(changed.size()), part);
            break;
          case 2:
            changed.replace(below(changed.size()), length, part);
            break;
          default: {
            const std::string& field = fields[below(fields.size())];
            changed.replace(at, field.size(), field);
          }
        }
        if (changed.empty()) changed = "P";
      }
      trials(changed);
    }
}

}  // namespace test::zip_mutations
