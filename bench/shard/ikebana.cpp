// Defines the contestants that train the GPT with a policy on shard.
#include <gpt_of.hpp>
#include <ikebana/shard.hpp>

#include "rank.hpp"

namespace {

using namespace ikebana;
using bench::Place, bench::Setting, bench::Step;

template <class How>
Step trained(const Setting& setting, const Place& place, Shard<How> policy) {
  policy.process_group = ProcessGroup(place.store, place.rank, place.size);
  auto trainer = std::make_shared<Trainer<GPT, AdamW, Shard<How>>>(bench::gpt_of(setting),
                                                                   AdamW{.lr = 1e-3}, policy);
  return [trainer](const bench::Batch& batch) {
    return trainer->step(Tokens{batch.first, batch.second}).loss();
  };
}

Step contestant(const Setting& setting, const Place& place) {
  const std::string name = setting.text("contestant");
  if (name == "fsdp") return trained<FSDP>(setting, place, {});
  if (name == "fsdp_plain")
    return trained<FSDP>(
        setting, place,
        {.reshard_after_forward = true, .forward_prefetch = false, .backward_prefetch = false});
  if (name == "zero1") return trained<ZeRO1>(setting, place, {});
  if (name == "zero2") return trained<ZeRO2>(setting, place, {});
  if (name == "ddp") return trained<DDP>(setting, place, {});
  if (name == "ddp_unordered") return trained<DDP>(setting, place, {.ordered = false});
  if (name.starts_with("ddp_of_"))  // MiB of a bucket, to choose the default
    return trained<DDP>(setting, place, {.bucket_cap_mb = std::stod(name.substr(7))});
  if (name == "ddp_late") return trained<DDP>(setting, place, {.bucket_cap_mb = 1e6});
  throw std::runtime_error("shard_ikebana: there is no contestant `" + name + "`");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    const Setting setting(argc, argv);
    const Place place(setting);
    return bench::serve(setting, place, contestant(setting, place));
  });
}
