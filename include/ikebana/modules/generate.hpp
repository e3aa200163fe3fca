#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/kv_cache.hpp>

namespace ikebana::modules {

/// How the next token is chosen, in the words of Hugging Face's generate.
struct SamplingOptions {
  /// Divides the logits; 0 takes the likeliest token, the first of equals.
  double temperature = 1;
  /// Only the k likeliest tokens, and what ties with the last of them; 0: all.
  std::int64_t top_k = 0;
  /// Only the likeliest tokens that together have this probability, at least one.
  double top_p = 1;
};

/// The probabilities that tokens are drawn with: logits (..., V) to (..., V) in single precision.
/// Temperature first, then top_k, then top_p on what is left, as in Hugging Face's transformers.
/// Sources: Fan et al., Hierarchical Neural Story Generation, 2018 (top_k); Holtzman et al., The
/// Curious Case of Neural Text Degeneration, 2020 (top_p).
inline at::Tensor probabilities(const at::Tensor& logits, const SamplingOptions& o = {}) {
  if (!(o.temperature >= 0) || o.top_k < 0 || !(o.top_p > 0 && o.top_p <= 1))
    throw Error("sampling: temperature " + c10::str(o.temperature) + ", top_k " +
                std::to_string(o.top_k) + ", top_p " + c10::str(o.top_p) +
                "; temperature and top_k are 0 or more, top_p is above 0 and at most 1");
  auto scores = logits.to(at::kFloat);
  if (o.temperature == 0) return at::zeros_like(scores).scatter_(-1, scores.argmax(-1, true), 1);
  scores = scores / o.temperature;
  constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();
  if (o.top_k > 0 && o.top_k < scores.size(-1)) {
    const auto last = std::get<0>(scores.topk(o.top_k, -1)).slice(-1, -1);
    scores = scores.masked_fill(scores < last, minus_infinity);
  }
  if (o.top_p < 1) {
    const auto [sorted, order] = scores.sort(/*stable=*/true, -1, /*descending=*/true);
    const auto p = at::softmax(sorted, -1);
    auto surplus = p.cumsum(-1) - p >= o.top_p;  // the likelier ones are enough
    surplus.slice(-1, 0, 1).fill_(false);
    scores = scores.masked_fill(at::zeros_like(surplus).scatter_(-1, order, surplus), minus_infinity);
  }
  return at::softmax(scores, -1);
}

/// What `generate` takes: how tokens are chosen, and when it ends.
struct GenerateOptions {
  std::int64_t max_new_tokens = 20;
  SamplingOptions sampling{};
  /// Ends a row; the tokens after it in the result are this one, too.
  std::optional<std::int64_t> stop_token{};
  /// Of a generator of this call's own; LibTorch's default generators are never drawn from.
  std::uint64_t seed = 0;
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// Chooses token after token of all rows, on the CPU, so that every device gives the same ones.
class TokenSampler {
 public:
  TokenSampler(const at::Tensor& prompt, const modules::GenerateOptions& o) : options_(o) {
    if (!prompt.defined() || prompt.dim() != 2 || prompt.numel() == 0 ||
        prompt.scalar_type() != at::kLong)
      throw Error("generate: the prompt must be (B, T) tokens of type Long, at least one a row");
    if (o.max_new_tokens < 0)
      throw Error("generate: max_new_tokens is " + std::to_string(o.max_new_tokens) +
                  "; give 0 or more");
    random_ = at::make_generator<at::CPUGeneratorImpl>(o.seed);
    ended_ = at::zeros({prompt.size(0), 1}, at::kBool);
  }

  /// Logits (B, T, V) or (B, V) of which the last are the next token's: (B, 1) tokens.
  at::Tensor next(const at::Tensor& logits) {
    if (logits.dim() < 2 || logits.dim() > 3 || logits.size(0) != ended_.size(0))
      throw Error("generate: the model gave " + c10::str(logits.sizes()) +
                  "; logits must be (B, T, V) or (B, V)");
    const auto last = (logits.dim() == 3 ? logits.select(1, -1) : logits).cpu();
    const auto p = modules::probabilities(last, options_.sampling);
    auto token = options_.sampling.temperature == 0 ? p.argmax(-1, true)
                                                    : at::multinomial(p, 1, false, random_);
    if (!options_.stop_token) return token;
    token.masked_fill_(ended_, *options_.stop_token);
    ended_ = token == *options_.stop_token;
    return token;
  }
  bool all_ended() const { return options_.stop_token && ended_.all().item<bool>(); }

 private:
  modules::GenerateOptions options_;
  at::Generator random_;
  at::Tensor ended_;
};

/// `step(tokens)` gives the logits of what is new: after the prompt, one token a row.
template <class Step>
at::Tensor generate_with(Step&& step, const at::Tensor& prompt,
                         const modules::GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  TokenSampler sampler(prompt, options);
  at::Tensor all = prompt, fresh = prompt;
  for (std::int64_t i = 0; i < options.max_new_tokens && !sampler.all_ended(); ++i) {
    fresh = sampler.next(step(all, fresh)).to(prompt.device());
    all = at::cat({all, fresh}, 1);
  }
  return all;
}

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Continues each row of `prompt` (B, T) by tokens drawn from a model: (B, T + n) tokens, n at most
/// max_new_tokens, and fewer where every row has met the stop token. `step(tokens)` gives the
/// logits (B, T, V), or (B, V) of the last; it is called with all tokens so far. Costs a forward
/// over everything for each token; the model is used as it is, eval() is the caller's. Reads every
/// token on the host.
template <class Step>
at::Tensor generate(Step&& step, const at::Tensor& prompt, const GenerateOptions& options = {}) {
  return detail::generate_with([&](const at::Tensor& all, const at::Tensor&) { return step(all); },
                               prompt, options);
}

/// The same tokens with a cache: `step(tokens, cache)` is called with what is new alone, first the
/// prompt, then one token a row. It must append to the cache, as modules::KVCache lets it; any type
/// that `step` takes will do. Costs a forward over one position for each token.
template <class Step, class Cache>
  requires(!std::is_same_v<std::remove_const_t<Cache>, GenerateOptions>)
at::Tensor generate(Step&& step, const at::Tensor& prompt, Cache& cache,
                    const GenerateOptions& options = {}) {
  return detail::generate_with(
      [&](const at::Tensor&, const at::Tensor& fresh) { return step(fresh, cache); }, prompt,
      options);
}

}  // namespace ikebana::modules
