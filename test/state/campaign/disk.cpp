// Operations change what programs see, and are recorded; after a power failure, the choices decide
// which of the recorded changes had reached the disk.
#include "state/campaign/disk.hpp"

#include <cstring>

namespace campaign {

class Disk::Output : public ikebana::OutputFile {
 public:
  Output(Disk& disk, std::size_t file) : disk_(disk), file_(file) {}
  void write(std::uint64_t offset, const void* bytes, std::size_t n) override {
    disk_.write(file_, offset, static_cast<const char*>(bytes), n);
  }
  void sync() override { disk_.sync(file_); }

 private:
  Disk& disk_;
  std::size_t file_;
};

class Disk::Input : public ikebana::InputFile {
 public:
  explicit Input(const std::string& bytes) : bytes_(bytes) {}
  std::uint64_t size() override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t n) override {
    if (offset > bytes_.size() || n > bytes_.size() - offset)
      throw ikebana::FileFailed("disk: read behind the end");
    std::memcpy(to, bytes_.data() + offset, n);
  }

 private:
  const std::string& bytes_;
};

/// Calls `effect(fault)`, with null if there is no fault. After a power failure it does nothing.
template <class F>
void Disk::operation(F&& effect) {
  if (lost_) return;
  const bool hit = operations_++ == at_;
  if (hit && fault_ == Fault::Full) throw ikebana::FileFailed("disk: full");
  effect(hit ? &fault_ : nullptr);
  if (hit && fault_ == Fault::Broken) throw ikebana::FileFailed("disk: broken");
  if (hit) lost_ = true, throw LostPower();
}

void Disk::apply(Names& names, const Part& part) {
  if (part.file < 0) names.erase(part.name);
  else names[part.name] = static_cast<std::size_t>(part.file);
}

void Disk::change(Change change) {
  for (const Part& part : change) apply(now_, part);
  if (kind_.journal) return pending_.push_back(std::move(change));
  for (const Part& part : change) pending_.push_back({part});
}

void Disk::put(const Path& path, std::string bytes) {
  disk_[path] = now_[path] = files_.size();
  files_.push_back({bytes, bytes, std::vector<bool>(bytes.size() / sector + 1)});
}

void Disk::put_link(const Path& from, const Path& to) { disk_[to] = now_[to] = now_.at(from); }

std::unique_ptr<ikebana::OutputFile> Disk::create(const Path& path, std::uint64_t size) {
  operation([&](const Fault*) {
    if (exists(path)) change({{path, -1}});
    change({{path, static_cast<std::int64_t>(files_.size())}});
    files_.push_back({std::string(size, '\0'), "", std::vector<bool>(size / sector + 1, true)});
  });
  return std::make_unique<Output>(*this, now_.count(path) ? now_.at(path) : 0);
}

std::unique_ptr<ikebana::InputFile> Disk::open(const Path& path) {
  if (!exists(path)) throw ikebana::FileFailed("disk: no `" + path.string() + "`");
  return std::make_unique<Input>(bytes(path));
}

void Disk::rename(const Path& from, const Path& to) {
  operation([&](const Fault*) {
    Change all{{from, -1}, {to, static_cast<std::int64_t>(now_.at(from))}};
    if (exists(to)) all.insert(all.begin(), {to, -1});
    change(std::move(all));
  });
}

bool Disk::link(const Path& from, const Path& to) {
  if (!kind_.links) return false;
  try {
    operation([&](const Fault*) { change({{to, static_cast<std::int64_t>(now_.at(from))}}); });
    return true;
  } catch (const ikebana::Error&) {
    return false;
  }
}

void Disk::remove(const Path& path) {
  if (!exists(path)) return;
  operation([&](const Fault*) { change({{path, -1}}); });
}

void Disk::sync_folder(const Path& folder) {
  operation([&](const Fault* fault) {
    if (fault) return;
    auto is_here = [&](const Change& c) { return ikebana::detail::folder_of(c[0].name) == folder; };
    for (const Change& all : pending_)
      for (const Part& part : all)
        if (is_here(all)) apply(disk_, part);
    std::erase_if(pending_, is_here);
  });
}

std::vector<std::string> Disk::list(const Path& folder) {
  std::vector<std::string> all;
  for (const auto& [path, file] : now_)
    if (ikebana::detail::folder_of(path) == folder) all.push_back(path.filename().string());
  return all;
}

void Disk::write(std::size_t at, std::uint64_t offset, const char* bytes, std::size_t n) {
  operation([&](const Fault* fault) {
    File& file = files_[at];
    if (fault && *fault == Fault::Broken) n /= 2;
    if (n == 0) return;
    if (file.now.size() < offset + n) file.now.resize(offset + n);
    if (file.dirty.size() <= file.now.size() / sector)
      file.dirty.resize(file.now.size() / sector + 1);
    std::memcpy(file.now.data() + offset, bytes, n);
    for (std::size_t s = offset / sector; s <= (offset + n - 1) / sector; ++s) file.dirty[s] = true;
  });
}

void Disk::sync(std::size_t at) {
  operation([&](const Fault* fault) {
    if (fault && *fault == Fault::PowerLoss) return;
    File& file = files_[at];
    if (!fault) file.disk.resize(file.now.size());
    for (std::size_t s = 0; s < file.dirty.size(); ++s) {
      const std::size_t begin = s * sector, n = std::min(sector, file.now.size() - begin);
      if (!fault && file.dirty[s] && begin < file.now.size())
        std::memcpy(file.disk.data() + begin, file.now.data() + begin, n);
      file.dirty[s] = false;
    }
  });
}

Disk Disk::after_loss(Choices& choices) const {
  Disk found(kind_);
  std::map<std::size_t, std::size_t> moved;
  for (const auto& [name, file] : names_after_loss(choices)) {
    auto [at, is_new] = moved.try_emplace(file, found.files_.size());
    if (is_new) found.put(name, bytes_after_loss(files_[file], choices));
    else found.disk_[name] = found.now_[name] = at->second;
  }
  return found;
}

/// Any of the changes may survive, in any order.
Disk::Names Disk::names_after_loss(Choices& choices) const {
  Names names = disk_;
  choices.begin_another();
  std::vector<const Change*> survived;
  for (const Change& c : pending_)
    if (choices.survives()) survived.push_back(&c);
  while (!survived.empty()) {
    const auto at = survived.begin() + static_cast<std::int64_t>(choices.pick(survived.size()));
    for (const Part& part : **at) apply(names, part);
    survived.erase(at);
  }
  return names;
}

/// Any of the sectors may survive, up to any size; sectors that were never written hold zeros,
/// noise or the bytes of another file.
std::string Disk::bytes_after_loss(const File& file, Choices& choices) const {
  choices.begin_another();
  std::size_t size = file.disk.size();
  if (file.now.size() != size) {
    const std::size_t sizes[] = {size, file.now.size(), (size + file.now.size()) / 2};
    size = sizes[choices.pick(3)];
  }
  std::string bytes = file.disk;
  bytes.resize(size);
  if (size > file.disk.size()) {
    const std::uint64_t what = choices.pick(2 + files_.size());
    const std::string noise(what == 1 ? size : 0, '\xa5');
    const std::string& from = what > 1 ? files_[what - 2].disk : noise;
    for (std::size_t i = file.disk.size(); i < std::min(size, from.size()); ++i) bytes[i] = from[i];
  }
  for (std::size_t s = 0; s < file.dirty.size() && s * sector < size; ++s)
    if (file.dirty[s] && choices.survives()) {
      const std::size_t end = std::min({(s + 1) * sector, size, file.now.size()});
      if (s * sector < end)
        bytes.replace(s * sector, end - s * sector, file.now, s * sector, end - s * sector);
    }
  return bytes;
}

}  // namespace campaign
