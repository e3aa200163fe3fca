// Truncated and flipped files: each is rejected, or loads as the original state.
#include "state/campaign/bad_files.hpp"

#include <cstdio>
#include <cstring>

#include "state/campaign/memory.hpp"
#include "state/campaign/scenarios.hpp"

namespace campaign {
namespace {

class MemoryInput : public ikebana::InputFile {
 public:
  explicit MemoryInput(const std::string& bytes) : bytes_(bytes) {}
  std::uint64_t size() override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t n) override {
    require(offset <= bytes_.size() && n <= bytes_.size() - offset, "a read leaves the file");
    std::memcpy(to, bytes_.data() + offset, n);
  }

 private:
  const std::string& bytes_;
};

}  // namespace

std::unique_ptr<ikebana::InputFile> MemoryFiles::open(const Path& path) {
  auto found = files.find(path);
  if (found == files.end()) throw ikebana::FileFailed("no such file");
  return std::make_unique<MemoryInput>(found->second);
}

LoadChecker::LoadChecker(std::string name) : name_(std::move(name)), original_(saved_trainer()) {
  MemoryWatch first;  // creates the counter of tensors before the first tensor
  files_.files[state_path] = original_;
  state_ = ikebana::detail::load_state(files_, state_path);
}

void LoadChecker::fail(const std::string& what) const {
  throw std::runtime_error(name_ + ": case " + std::to_string(cases_) + ": " + what + " (" +
                           (message_.empty() ? "loaded" : message_) + ")");
}

const ikebana::TensorFile* LoadChecker::load(std::string bytes) {
  ++cases_;
  found_ = {};
  message_.clear();
  const std::uint64_t size = bytes.size();
  files_.files[state_path] = std::move(bytes);
  MemoryWatch watch;
  try {
    found_ = ikebana::detail::load_state(files_, state_path);
  } catch (const ikebana::BadFile& error) {
    message_ = error.what();
  } catch (const std::exception& error) {
    fail(std::string("threw something else: ") + error.what());
  }
  const auto max_bytes = static_cast<std::int64_t>(size) + (1 << 20);
  if (size < 1 << 16)
    most_memory_ = std::max(most_memory_, watch.peak() - static_cast<std::int64_t>(size));
  if (watch.largest() > max_bytes) fail("asked for " + std::to_string(watch.largest()) + " bytes");
  // A header of megabytes exists twice, as text and parsed.
  if (size < 1 << 16 && watch.peak() > max_bytes)
    fail("had " + std::to_string(watch.peak()) + " bytes");
  if (message_.empty()) return ++loaded_, &found_;
  check_message(size);
  return ++rejected_, nullptr;
}

/// Checks that the text is "... at byte 12: `field`: ..." or "... at byte 12: the header: ...", in
/// one line, with a remedy.
void LoadChecker::check_message(std::uint64_t size) const {
  const std::string_view text = message_, mark = "at byte ";
  const auto at = text.find(mark);
  if (at == text.npos) fail("the message names no byte");
  char* end = nullptr;
  const std::uint64_t byte = std::strtoull(text.data() + at + mark.size(), &end, 10);
  if (byte > size) fail("the message names a byte behind the end");
  const std::string_view rest(end);
  if (!rest.starts_with(": `") && !rest.starts_with(": the header: "))
    fail("the message names no field");
  if (!rest.ends_with(". Use another copy or an earlier state.")) fail("the message has no end");
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20) fail("the message has control characters");
  if (text.size() > 1000) fail("the message is long");
}

void LoadChecker::original_or_rejected(std::string bytes, const std::string& what) {
  const ikebana::TensorFile* found = load(std::move(bytes));
  if (found && (!same_states(found->tensors, state_.tensors) ||
                found->header.metadata != state_.header.metadata))
    fail(what + " gives another state");
}

void LoadChecker::print(const std::string& more) const {
  std::printf(
      "%s: %lld cases of a file of %zu bytes: %lld rejected, %lld loaded as they should%s; at most "
      "%lld bytes of memory more than the file's\n",
      name_.c_str(), (long long)cases_, original_.size(), (long long)rejected_, (long long)loaded_,
      more.c_str(), (long long)most_memory_);
}

/// Tries every length that is shorter than the file.
void truncations(std::int64_t count) {
  LoadChecker checker("truncations");
  const std::string& whole = checker.original();
  const std::size_t step = count == 0 ? 1 : std::max<std::size_t>(1, whole.size() / count);
  for (std::size_t size = 0; size < whole.size(); size += step)
    if (checker.load(whole.substr(0, size)))
      checker.fail("a part of " + std::to_string(size) + " bytes was loaded");
  checker.original_or_rejected(whole, "the whole file");
  checker.print();
}

/// Every bit flipped.
void flips(std::int64_t count) {
  LoadChecker checker("flips");
  const std::string& whole = checker.original();
  const std::size_t bits = 8 * whole.size();
  const std::size_t step = count == 0 ? 1 : std::max<std::size_t>(1, bits / count) | 1;
  for (std::size_t bit = 0; bit < bits; bit += step) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    checker.original_or_rejected(std::move(bytes), "bit " + std::to_string(bit));
  }
  checker.print();
}

}  // namespace campaign
