#pragma once
#include <ikebana/data/batch_fetcher.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void throw_bad_sample(const std::string& what, BatchPosition at) {
  std::string why = "something that is no std::exception";
  try {
    throw;
  } catch (const c10::Error& error) {
    why = message_of(error);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  std::throw_with_nested(
      BadSample("DataLoader: " + what + " (" + text(at) + ") threw: " + why +
                ". The loader is still before this batch: a new loop tries it again, and seek({" +
                std::to_string(at.epoch) + ", " + std::to_string(at.batch + 1) + "}) skips it."));
}

IKEBANA_INLINE void throw_none_present(const std::string& indices, BatchPosition at) {
  throw BadSample("DataLoader: the dataset left out all samples of " + text(at) + " (" + indices +
                  "), so it has no batch. Make batch_size larger, leave the samples out by a "
                  "Subset, or skip the batch by seek({" +
                  std::to_string(at.epoch) + ", " + std::to_string(at.batch + 1) + "}).");
}

}  // namespace ikebana::detail
