#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/saved_trainer.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Metadata metadata_of(SavedTrainer& trainer) {
  return {{"ikebana", "1"},
          {"ikebana.steps", std::to_string(trainer.steps())},
          {"ikebana.recipe", trainer.describe()}};
}

}  // namespace ikebana::detail
