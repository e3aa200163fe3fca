// The C++ side of archives.py: reads and writes zip archives and JSON.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ikebana/error.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/zip_reader.hpp>
#include <ikebana/state/files/zip_writer.hpp>

namespace {

using namespace ikebana;
using ikebana::detail::Json;
using ikebana::detail::JsonStyle;
using ikebana::detail::JsonWriter;
using ikebana::detail::ZipEntry;
using ikebana::detail::ZipReader;
using ikebana::detail::ZipWriter;
using Path = Files::Path;

std::string bytes_of(const Path& path) {
  const auto file = system_files().open(path);
  std::string bytes(file->size(), '\0');
  file->read(0, bytes.data(), bytes.size());
  return bytes;
}
void write(const Path& path, const std::string& bytes) {
  system_files().create(path, bytes.size())->write(0, bytes.data(), bytes.size());
}

/// Writes the entries of an archive as JSON.
void list(const Path& from, const Path& to) {
  ZipReader reader(system_files(), from);
  reader.check_all();
  JsonWriter json;
  json.object([&] {
    json.member("root", reader.root());
    json.object("entries", [&] {
      for (const ZipEntry& e : reader.entries())
        json.object(e.name, [&] { json.member("size", e.size), json.member("crc", e.crc); });
    });
  });
  write(to, std::move(json).text());
}

/// Reads an archive and writes its entries to another, under another root folder.
void copy(const Path& from, const Path& to) {
  ZipReader reader(system_files(), from);
  ZipWriter writer("copy");
  for (const ZipEntry& e : reader.entries()) writer.add(e.name, reader.text(e.name, e.size));
  writer.write(system_files(), to);
}

void write_small(const Path& to) {
  ZipWriter writer("model");
  writer.add("archive_format", "pt2");
  writer.add("\xc3\xbc \xe6\xbc\xa2", std::string(3'000'000, 'x'));
  writer.add("empty", "");
  writer.add_records_of_pytorch();
  writer.write(system_files(), to);
}

/// Files that take no room on the disk for pieces of zeros.
class SparseFiles : public PosixFiles {
 public:
  std::unique_ptr<OutputFile> create(const Path& path, std::uint64_t) override {
    return std::make_unique<Output>(PosixFiles::create(path, 0));
  }

 private:
  struct Output : OutputFile {
    explicit Output(std::unique_ptr<OutputFile> given) : file(std::move(given)) {}
    void write(std::uint64_t offset, const void* bytes, std::size_t n) override {
      const char* begin = static_cast<const char*>(bytes);
      if (n > 0 && (begin[0] != 0 || std::memcmp(begin, begin + 1, n - 1) != 0))
        file->write(offset, bytes, n);
    }
    void sync() override { file->sync(); }
    std::unique_ptr<OutputFile> file;
  };
};

void write_large(const Path& to) {
  const std::uint64_t size = (std::uint64_t{4} << 30) + 5;
  ZipWriter writer("model");
  writer.add("first", "1");
  writer.add("large", size, [&](const ZipWriter::Sink& sink) {
    const std::string zeros(1 << 20, '\0');
    for (std::uint64_t at = 0; at < size - 5; at += zeros.size()) sink(zeros.data(), zeros.size());
    sink("12345", 5);
  });
  writer.add("last", "2");
  writer.add_records_of_pytorch();
  SparseFiles files;
  writer.write(files, to);
}

/// Reads the texts and the whole numbers of a JSON file and the numbers of a binary file, and
/// writes all of them.
void json(const Path& texts, const Path& numbers, const Path& to) {
  JsonWriter writer({.not_finite = JsonStyle::NotFinite::Text});
  const std::string text = bytes_of(texts), binary = bytes_of(numbers);
  Json reader(text, 0);
  writer.object([&] {
    reader.object("the file", [&](const std::string& key) {
      writer.array(key, [&] {
        reader.array("a list", [&] {
          if (key == "texts") writer.value(reader.string());
          else writer.value(reader.signed_integer());
        });
      });
    });
    std::vector<double> all(binary.size() / sizeof(double));
    std::memcpy(all.data(), binary.data(), all.size() * sizeof(double));
    writer.member("numbers", all);
  });
  reader.expect_end("the file");
  write(to, std::move(writer).text());
}

}  // namespace

int main(int count, char** words) try {
  const std::string call = count > 1 ? words[1] : "";
  if (call == "list" && count == 4) list(words[2], words[3]);
  else if (call == "copy" && count == 4) copy(words[2], words[3]);
  else if (call == "small" && count == 3) write_small(words[2]);
  else if (call == "large" && count == 3) write_large(words[2]);
  else if (call == "json" && count == 5) json(words[2], words[3], words[4]);
  else return 2;
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
