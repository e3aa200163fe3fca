// One or two changes of a saved state, with no checksum mended, the header's, or all.
#include "state/campaign/edits.hpp"

#include <cstring>

#include "state/campaign/bad_files.hpp"
#include "state/campaign/lives.hpp"

namespace campaign {
namespace {

/// True where what was loaded is what the document says of it: names, types, shapes, bytes.
bool says(const Document& d, const std::string& name, const at::Tensor& t) {
  for (const Entry& e : d.tensors) {
    if (e.name != name || e.bytes() != t.nbytes() || e.end > d.data.size()) continue;
    if (std::memcmp(d.data.data() + e.begin, t.const_data_ptr(), t.nbytes()) != 0) continue;
    if (d.about("ikebana.dtype." + name)) return true;  // its type is there
    return ikebana::detail::type_of_name(e.dtype) == t.scalar_type() && t.sizes() == e.shape;
  }
  return false;
}
bool says(const Document& d, const ikebana::StateDict& found) {
  for (const auto& [name, tensor] : found)
    if (!says(d, name, tensor)) return false;
  return found.size() == d.tensors.size();
}

class Edits {
 public:
  void run(std::int64_t count) {
    for (const auto* some : {&edits_of_entries(), &edits_of_text()})
      for (const Edit& edit : *some) all_.push_back(&edit);
    for (std::int64_t i = 0; i < count; ++i) {
      Random random(static_cast<std::uint64_t>(i));
      const auto mend = static_cast<Mend>(i % 3);
      const Edit& first = *all_[static_cast<std::size_t>(i / 3) % all_.size()];
      const bool two = i / 3 / static_cast<std::int64_t>(all_.size()) % 2 == 1;
      try_one(first, two ? any_of(all_, random) : nullptr, mend, random);
    }
    judge_.print(", of " + std::to_string(all_.size()) + " kinds and two at once");
  }

 private:
  void try_one(const Edit& first, const Edit* second, Mend mend, Random& random) {
    Document d = document_;
    first.apply(d, random);
    if (second) second->apply(d, random);
    const std::string bytes = d.written(mend);
    const bool unchanged = bytes == unchanged_;
    const ikebana::TensorFile* found = judge_.load(bytes);
    Diagnosis verdict = mend == Mend::Header ? first.with_header : first.with_all;
    if (second) verdict = Diagnosis::Any;
    if (mend == Mend::None) verdict = unchanged ? Diagnosis::Same : Diagnosis::Rejected;
    const std::string what = std::string("`") + first.name + (second ? "` and `" : "") +
                             (second ? second->name : "") +
                             "`, checksums mended: " + std::to_string(static_cast<int>(mend));
    if (verdict == Diagnosis::Rejected && found) judge_.fail(what + " was not seen");
    if (verdict != Diagnosis::Rejected && verdict != Diagnosis::Any && !found)
      judge_.fail(what + " was rejected");
    if (found && !says(d, found->tensors)) judge_.fail(what + " gives what the file does not say");
    if (verdict == Diagnosis::Same && !same_states(found->tensors, judge_.state()))
      judge_.fail(what + " gives another state");
  }

  Judge judge_{"edits"};
  Document document_ = Document::of(Document::of(judge_.original()).written(Mend::Header));
  const std::string unchanged_ = document_.written(Mend::None);
  std::vector<const Edit*> all_;
};

}  // namespace

void edits(std::int64_t count) { Edits().run(count == 0 ? 30'000 : count); }

}  // namespace campaign
