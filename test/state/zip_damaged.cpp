// Each field of an archive that is wrong is an error that says so.
#include <functional>
#include <ikebana/error.hpp>
#include <ikebana/state/files/zip_reader.hpp>

#include "state/sparse_files.hpp"
#include "state/zip_records.hpp"
#include "test.hpp"

using namespace ikebana;
using ikebana::detail::ZipEntry;
using ikebana::detail::ZipReader;

namespace test::zip_damaged {

using namespace test::zip_records;
using Texts = std::map<std::string, std::string>;

Texts read(const std::string& bytes) {
  SparseFiles files;
  files.put("a.pt2", bytes);
  ZipReader reader(files, "a.pt2");
  Texts texts;
  for (const ZipEntry& e : reader.entries()) texts[e.name] = reader.text(e.name, e.size);
  return texts;
}
Archive archive() { return Archive({{"m/a", "first"}, {"m/b", "second!"}}); }
Texts texts() { return {{"a", "first"}, {"b", "second!"}}; }

/// Returns the error for an archive that was changed.
std::string refused(const std::function<void(Archive&)>& change) {
  Archive changed = archive();
  change(changed);
  return message_of<BadFile>([&] { read(changed.text()); });
}
/// Checks that the error has these words, and names the file and a byte.
void check(const std::string& words, const std::function<void(Archive&)>& change) {
  const std::string said = refused(change);
  CHECK_MESSAGE(contains(said, words), words, " | ", said);
  CHECK_MESSAGE(contains(said, "load: `a.pt2` "), said);
  CHECK_MESSAGE(contains(said, ", at byte "), said);
}
void rename(Entry& entry, const std::string& name) { entry.local.name = entry.listed.name = name; }

TEST_CASE("zip: archives of other programs are read") {
  CHECK(read(archive().text()) == texts());
  Archive with_comment = archive();
  with_comment.comment = "PK\5\6 is a comment", with_comment.entries[0].listed.comment = "more";
  CHECK(read(with_comment.text()) == texts());
  Archive with_folders = archive();
  with_folders.entries.insert(with_folders.entries.begin(), {{"m/", ""}, {"m/folder/", ""}});
  CHECK(read(with_folders.text()) == texts());
  Archive flat({{"m/a", "1"}, {"other", "2"}});
  CHECK(read(flat.text()) == Texts{{"m/a", "1"}, {"other", "2"}});
  Archive extra = archive();
  extra.entries[0].local.extra = "FB" + u16(3) + "ZZZ",
  extra.entries[1].listed.extra = "UT" + u16(0);
  CHECK(read(extra.text()) == texts());
}

TEST_CASE("zip: numbers in fields of 64 bits and descriptors are read") {
  Archive wide = archive();
  for (Entry& e : wide.entries) {
    const std::string sizes = u64(e.data.size()) + u64(e.data.size());
    e.local.extra = u16(1) + u16(16) + sizes;
    e.listed.extra = u16(1) + u16(16) + sizes;
    e.local.size = e.local.packed = e.listed.size = e.listed.packed = 0xffffffff;
  }
  CHECK(read(wide.text()) == texts());
  Entry& described = wide.entries[0];
  described.local.flags = described.listed.flags = 0x808;
  described.behind = "PK\7\x08" + u32(described.local.crc) + u64(5) + u64(5);
  described.local.crc = described.local.size = described.local.packed = 0;
  CHECK(read(wide.text()) == texts());
  Archive end = archive();
  end.text();
  const std::size_t bytes = 2 * (46 + 3);
  end.wide = wide_end(end.directory + bytes, 2, bytes, end.directory);
  CHECK(read(end.text()) == texts());
  end.count = 0xffff, end.bytes = end.offset = 0xffffffff;
  CHECK(read(end.text()) == texts());
}

TEST_CASE("zip: what is wrong with the end of an archive is said") {
  CHECK(contains(message_of<BadFile>([] { read(""); }), "at byte 0: the end record is missing."));
  CHECK(contains(message_of<BadFile>([] { read("PK\5\6"); }), "the end record is missing"));
  CHECK(contains(message_of<BadFile>([] { read("PK\3\4" + std::string(100, 'x')); }),
                 "at byte 104: the end record is missing: the file was cut off. Use another copy"));
  check("the end record is missing", [](Archive& a) { a.comment_bytes = 1; });
  check("it is one of several disks. Join them", [](Archive& a) { a.disk = 1; });
  check("it is one of several disks", [](Archive& a) { a.disk = 0xffff; });
  check("two numbers of entries differ", [](Archive& a) { a.count_here = 1; });
  check("1000 entries do not fit a directory of 98 bytes", [](Archive& a) { a.count = 1000; });
  check("the directory: something follows its last entry", [](Archive& a) { a.count = 1; });
  check("the archive has no entries", [](Archive& a) { a.entries.clear(); });
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{97}, std::size_t{0xffffffff}})
    check("does not end where this record begins", [&](Archive& a) { a.bytes = bytes; });
  for (const std::size_t offset : {std::size_t{0}, std::size_t{79}, std::size_t{0xffffffff}})
    check("does not end where this record begins", [&](Archive& a) { a.offset = offset; });
  check("does not end where this record begins", [](Archive& a) { a.after_directory = "x"; });
}

TEST_CASE("zip: what is wrong with the records for large archives is said") {
  constexpr std::size_t bytes = 2 * (46 + 3);
  const auto at = [](Archive& a) { return a.text(), a.directory; };
  const auto put = [](Archive& a, std::size_t offset, const std::string& field) {
    a.wide.replace(offset, field.size(), field);
  };
  const auto with = [&](std::size_t offset, const std::string& field) {
    return [=](Archive& a) {
      const std::size_t directory = at(a);
      a.wide = wide_end(directory + bytes, 2, bytes, directory);
      put(a, offset, field);
    };
  };
  check("the zip64 end record: its signature is wrong", with(0, "PK\6\5"));
  for (const std::size_t n : {std::size_t{43}, std::size_t{45}, ~std::size_t{0}})
    check("the zip64 end record: its length is wrong", with(4, u64(n)));
  check("it is one of several disks", with(16, u32(1)));
  check("it is one of several disks", with(20, u32(1)));
  for (const std::size_t field : {24u, 32u, 40u, 48u})
    for (const std::size_t n : {std::size_t{1}, ~std::size_t{0}})
      check("the zip64 end record differs from the end record", with(field, u64(n)));
  check("it is one of several disks", with(60, u32(1)));
  for (const std::size_t n : {~std::size_t{0}, std::size_t{1000}})
    check("the zip64 locator: its end record is not in the file", with(64, u64(n)));
  check("the zip64 end record: its signature is wrong", with(64, u64(0)));
  check("it is one of several disks", with(72, u32(2)));
  check("entries do not fit a directory", [&](Archive& a) {
    const std::size_t directory = at(a);
    a.wide = wide_end(directory + bytes, ~std::size_t{0}, bytes, directory), a.count = 0xffff;
  });
  check("does not end where this record begins", [&](Archive& a) {
    const std::size_t directory = at(a);
    a.wide = wide_end(directory + bytes, 2, ~std::size_t{0}, ~std::size_t{0}), a.bytes = 0xffffffff;
    a.offset = 0xffffffff;
  });
}

TEST_CASE("zip: what is wrong with an entry of the directory is said") {
  const auto listed = [](const std::string& words, const std::function<void(Fields&)>& change) {
    check(words, [&](Archive& a) { change(a.entries[1].listed); });
  };
  listed("the directory: an entry is missing or has a wrong signature",
         [](Fields& f) { f.signature = "PK\1\3"; });
  listed("the directory: an entry is longer than the directory",
         [](Fields& f) { f.name_bytes = 4; });
  listed("the directory: an entry is longer than the directory",
         [](Fields& f) { f.name_bytes = f.extra_bytes = 0xffff; });
  listed("`m/b` is encrypted. Write the archive without", [](Fields& f) { f.flags |= 1; });
  listed(
      "`m/b` is compressed, by method 8. Write the archive with stored entries, as "
      "torch.export.save does (zip -0).",
      [](Fields& f) { f.method = 8; });
  for (const int flag : {2, 4, 5, 6, 13})
    listed("`m/b`: its flags", [&](Fields& f) { f.flags |= std::size_t{1} << flag; });
  listed("`m/b` is on another disk", [](Fields& f) { f.disk = 1; });
  listed("`m/b` is stored, and its two sizes differ: 6 and 7", [](Fields& f) { f.packed = 6; });
  listed("`m/b` is stored, and its two sizes differ: 7 and 4294967295",
         [](Fields& f) { f.size = 0xffffffff; });
  listed("`m/b`: its extra field is cut off", [](Fields& f) { f.extra = "UT" + u16(1); });
  listed("`m/b`: its extra field is cut off", [](Fields& f) { f.extra = "U"; });
  listed("`m/b`: its zip64 field appears twice",
         [](Fields& f) { f.extra = u16(1) + u16(0) + u16(1) + u16(0); });
  listed("`m/b`: its zip64 field is too short", [](Fields& f) {
    f.size = f.packed = 0xffffffff, f.extra = u16(1) + u16(15) + std::string(15, '\1');
  });
  listed("are not all before the directory", [](Fields& f) {
    f.size = f.packed = 0xffffffff, f.extra = u16(1) + u16(16) + std::string(16, '\xff');
  });
  listed("`m/b`: its 8 bytes from byte", [](Fields& f) { f.size = f.packed = 8; });
}

TEST_CASE("zip: names that are no places within the folder are refused") {
  const auto named = [](const std::string& name, const std::string& words) {
    check(words, [&](Archive& a) { rename(a.entries[1], name); });
  };
  named("", "the name `` has an empty part, `.` or `..`");
  named("/", "the name `/` begins with `/`");
  named("/etc/passwd", "the name `/etc/passwd` begins with `/`");
  for (const char* name : {"..", "m/..", "m/../../a", "m/./a", "m//a", "./a"})
    named(name, "has an empty part, `.` or `..`");
  named("m\\a", "has a control character or a backslash");
  named("m/a\n", "the name `m/a\\u000a` has a control character or a backslash");
  named("m/a\x7f", "has a control character or a backslash");
  named(std::string("m/a\0.json", 9), "the name `m/a\\u0000.json` has a control character");
  for (const char* name : {"m/\xff", "m/\xc0\x80", "m/\xed\xa0\x80", "m/\xe2\x82"})
    named(name, "is not UTF-8");
  named("m/a", "`m/a` appears twice");
  named("m/b/", "`m/b/` is a folder, and has bytes");
}

TEST_CASE("zip: what is wrong with the header of an entry is said") {
  const auto local = [](const std::string& words, const std::function<void(Fields&)>& change) {
    check(words, [&](Archive& a) { change(a.entries[1].local); });
  };
  local("`m/b`: the signature of its header is wrong", [](Fields& f) { f.signature = "PK\1\2"; });
  local("`m/b`: its header has another name", [](Fields& f) { f.name = "m/c"; });
  local("`m/b`: its header has another name", [](Fields& f) { f.name_bytes = 2; });
  local("are not all before the directory", [](Fields& f) { f.name_bytes = 4; });
  local("are not all before the directory", [](Fields& f) { f.extra_bytes = 0xffff; });
  local("`m/b`: its header has other flags", [](Fields& f) { f.flags = 0; });
  local("`m/b`: its header has other flags, or another method", [](Fields& f) { f.method = 8; });
  for (std::size_t Fields::* field : {&Fields::crc, &Fields::size, &Fields::packed})
    for (const std::size_t n : {0u, 1u, 0xffffffffu})
      local("`m/b`: its header has another size, or another checksum",
            [&](Fields& f) { f.*field = n; });
  local("`m/b`: its extra field is cut off", [](Fields& f) { f.extra = "FB" + u16(2) + "Z"; });
  local("`m/b`: its zip64 field is too short",
        [](Fields& f) { f.size = 0xffffffff, f.extra = u16(1) + u16(7) + "1234567"; });
  local("has another size", [](Fields& f) {
    f.size = f.packed = 0xffffffff, f.extra = u16(1) + u16(16) + u64(7) + u64(8);
  });
  for (const std::size_t offset : {std::size_t{78}, std::size_t{0xffffffff}})
    check("`m/b`: its header is not in the file, at byte " + std::to_string(offset),
          [&](Archive& a) { a.entries[1].offset = offset; });
  check("`m/b`: the signature of its header is wrong", [](Archive& a) { a.entries[1].offset = 1; });
}

TEST_CASE("zip: a descriptor must agree, and no byte belongs to two entries or to none") {
  const auto described = [](const std::string& words, const std::string& behind) {
    check(words, [&](Archive& a) {
      Entry& e = a.entries[1];
      e.local.flags = e.listed.flags = 0x808, e.behind = behind;
    });
  };
  const std::string crc = u32(archive().entries[1].local.crc);
  described("`m/b`: the descriptor behind it is missing", "");
  described("`m/b`: the descriptor behind it is missing", crc + u32(7) + u32(7));
  for (const std::string& behind :
       {"PK\7\7" + crc + u32(7) + u32(7), "PK\7\x08" + u32(1) + u32(7) + u32(7),
        "PK\7\x08" + crc + u32(8) + u32(7), "PK\7\x08" + crc + u32(7) + u32(8)})
    described("`m/b`: the descriptor behind it differs from the directory", behind);
  described("bytes before the directory belong to no entry",
            "PK\7\x08" + crc + u32(7) + u32(7) + "x");
  check("bytes before `m/a` belong to no entry", [](Archive& a) { a.before = "#!/bin/sh"; });
  check("bytes before the directory belong to no entry", [](Archive& a) { a.between = "x"; });
  check("bytes before `m/b` belong to no entry",
        [](Archive& a) { a.entries[0].is_listed = false; });
  check("`m/a` overlaps another entry", [](Archive& a) {
    a.entries.push_back(a.entries[0]);
    a.entries[2].is_there = false, a.entries[2].offset = 0;
  });
  // An entry lies within the bytes of another, in the room that a third one leaves which is not
  // listed.
  check("`m/in` overlaps the entry before it", [](Archive& a) {
    Entry inner("m/in", "x");
    a.entries[0] = Entry("m/a", inner.local.local() + "x");
    a.entries.push_back(Entry("m/none", std::string(100, 'x'))), a.entries[2].is_listed = false;
    inner.is_there = false, inner.offset = 33;
    a.entries.push_back(inner);
  });
}

TEST_CASE("zip: bytes that were changed since they were written are found") {
  SparseFiles files;
  Archive changed = archive();
  changed.entries[1].data[3] ^= 1;
  files.put("a.pt2", changed.text());
  ZipReader reader(files, "a.pt2");
  CHECK(reader.text("a", 5) == "first");
  const auto words = "`b`: the checksum of its bytes does not match: they were changed since";
  CHECK(contains(message_of<BadFile>([&] { reader.text("b", 7); }), words));
  CHECK(contains(message_of<BadFile>([&] { reader.check_all(); }), words));
}

}  // namespace test::zip_damaged
