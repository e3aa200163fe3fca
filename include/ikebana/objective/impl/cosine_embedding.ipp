#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/objective/cosine_embedding.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<CosineEmbeddingLoss>::check() const {
  if (!(values.margin >= -1 && values.margin <= 1))
    throw BadValue("CosineEmbeddingLoss: margin is " + c10::str(values.margin) +
                   "; it must lie between -1 and 1, as a cosine does.");
}

}  // namespace ikebana
