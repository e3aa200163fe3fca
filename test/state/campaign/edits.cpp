// Makes one or two changes of a saved state, with no checksum corrected, the header's, or all.
#include "state/campaign/edits.hpp"

#include <cstring>

#include "state/campaign/bad_files.hpp"
#include "state/campaign/scenarios.hpp"

namespace campaign {
namespace {

/// Returns true if the loaded tensor is the one in the document: name, dtype, shape, bytes.
bool matches(const Document& d, const std::string& name, const at::Tensor& t) {
  for (const Entry& e : d.tensors) {
    if (e.name != name || e.bytes() != t.nbytes() || e.end > d.data.size()) continue;
    if (std::memcmp(d.data.data() + e.begin, t.const_data_ptr(), t.nbytes()) != 0) continue;
    if (d.metadata_value("ikebana.dtype." + name)) return true;  // its dtype is in the metadata
    return ikebana::detail::type_of_name(e.dtype) == t.scalar_type() && t.sizes() == e.shape;
  }
  return false;
}
bool matches(const Document& d, const ikebana::StateDict& found) {
  for (const auto& [name, tensor] : found)
    if (!matches(d, name, tensor)) return false;
  return found.size() == d.tensors.size();
}

class Edits {
 public:
  void run(std::int64_t count) {
    for (const auto* some : {&edits_of_entries(), &edits_of_text()})
      for (const Edit& edit : *some) all_.push_back(&edit);
    for (std::int64_t i = 0; i < count; ++i) {
      Random random(static_cast<std::uint64_t>(i));
      const auto fix = static_cast<FixChecksums>(i % 3);
      const Edit& first = *all_[static_cast<std::size_t>(i / 3) % all_.size()];
      const bool two = i / 3 / static_cast<std::int64_t>(all_.size()) % 2 == 1;
      try_one(first, two ? any_of(all_, random) : nullptr, fix, random);
    }
    checker_.print(", of " + std::to_string(all_.size()) + " kinds and two at once");
  }

 private:
  void try_one(const Edit& first, const Edit* second, FixChecksums fix, Random& random) {
    Document d = document_;
    first.apply(d, random);
    if (second) second->apply(d, random);
    const std::string bytes = d.written(fix);
    const bool unchanged = bytes == unchanged_;
    const ikebana::TensorFile* found = checker_.load(bytes);
    Outcome expected = fix == FixChecksums::Header ? first.with_header : first.with_all;
    if (second) expected = Outcome::Any;
    if (fix == FixChecksums::None) expected = unchanged ? Outcome::Same : Outcome::Rejected;
    const std::string what = std::string("`") + first.name + (second ? "` and `" : "") +
                             (second ? second->name : "") +
                             "`, checksums fixed: " + std::to_string(static_cast<int>(fix));
    if (expected == Outcome::Rejected && found) checker_.fail(what + " was not detected");
    if (expected != Outcome::Rejected && expected != Outcome::Any && !found)
      checker_.fail(what + " was rejected");
    if (found && !matches(d, found->tensors))
      checker_.fail(what + " gives other tensors than the file holds");
    if (expected == Outcome::Same && !same_states(found->tensors, checker_.state()))
      checker_.fail(what + " gives another state");
  }

  LoadChecker checker_{"edits"};
  Document document_ =
      Document::of(Document::of(checker_.original()).written(FixChecksums::Header));
  const std::string unchanged_ = document_.written(FixChecksums::None);
  std::vector<const Edit*> all_;
};

}  // namespace

void edits(std::int64_t count) { Edits().run(count == 0 ? 30'000 : count); }

}  // namespace campaign
