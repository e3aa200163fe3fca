#pragma once
// Generates text from a language model: sampling, and the loop over tokens.
#include <algorithm>
#include <cstdint>
#include <ikebana/bridge/cast_weights.hpp>
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/kv_cache.hpp>
#include <ikebana/modules/linear.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace ikebana::modules {

/// How the next token is chosen, with the names of Hugging Face's generate.
struct SamplingOptions {
  /// Divides the logits; 0 takes the most likely token, the first one of several.
  double temperature = 1;
  /// Only the k most likely tokens, and those as likely as the k-th; 0: all.
  std::int64_t top_k = 0;
  /// Only the most likely tokens that together have this probability; at least one.
  double top_p = 1;
};

/// Throws Error for options out of range.
void check_sampling(const SamplingOptions& o);

/// The probabilities with which tokens are drawn: logits (..., V) to (..., V) in FP32. Applies the
/// temperature, then top_k, then top_p to the rest, as Hugging Face's transformers does. Throws
/// Error for options out of range.
/// Sources: Fan et al., Hierarchical Neural Story Generation, 2018 (top_k); Holtzman et al., The
/// Curious Case of Neural Text Degeneration, 2020 (top_p).
at::Tensor probabilities(const at::Tensor& logits, const SamplingOptions& o = {});

/// The options of `generate`: how tokens are chosen, and when it ends.
struct GenerateOptions {
  std::int64_t max_new_tokens = 20;  ///< of each row, 0 or more
  SamplingOptions sampling{};        ///< how each token is chosen
  /// Ends a row; the result is padded with it.
  std::optional<std::int64_t> stop_token{};
  /// More tokens that end a row, as `eos_token_id` of Hugging Face's generate. A row that has ended
  /// is padded with `stop_token`, or with the first of these.
  std::vector<std::int64_t> stop_tokens{};
  /// Seed of the call's own generator; LibTorch's default generators are not used.
  std::uint64_t seed = 0;
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// The prompts of all rows. Where lengths differ, the first columns are those that every row has;
/// later ones take the token of a prompt that is longer in the place of the one that was chosen, so
/// that each row has its own tokens at their positions, and no model needs to know of padding.
class PromptRows {
 public:
  explicit PromptRows(const at::Tensor& prompt);
  explicit PromptRows(const std::vector<at::Tensor>& prompts);

  /// (B, T), on the device of the prompts.
  const at::Tensor& begin() const { return begin_; }
  /// Columns after `begin()` of which some row has a prompt.
  std::int64_t columns_left() const { return rest_.defined() ? rest_.size(1) : 0; }
  /// The lengths of all prompts, empty where they are alike.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// True (B, 1) for rows whose prompt ends before a column after `begin()`.
  at::Tensor ended_before(std::int64_t column) const { return ends_ <= column; }
  /// The tokens (B, 1) of a column: `chosen` in rows whose prompt has ended.
  at::Tensor tokens_of(std::int64_t column, const at::Tensor& chosen) const;

 private:
  static void check(const std::vector<at::Tensor>& prompts, std::size_t row);

  at::Tensor begin_, rest_, ends_;
  std::vector<std::int64_t> lengths_;
};

/// True for the tokens that end a row.
at::Tensor is_stop(const at::Tensor& tokens, const modules::GenerateOptions& o);

/// Chooses the next token of all rows, on the CPU, so that the same logits give the same tokens on
/// every device.
class TokenSampler {
 public:
  TokenSampler(const PromptRows& prompts, const modules::GenerateOptions& o);

  /// The next tokens (B, 1), from logits (B, T, V), of which the last position is used, or (B, V).
  at::Tensor next(const at::Tensor& logits);
  bool all_ended() const { return stops() && ended_.all().item<bool>(); }

 private:
  bool stops() const { return options_.stop_token || !options_.stop_tokens.empty(); }
  std::int64_t padding() const;
  /// The rows (B, 1) that end with the token of this column: a token of a prompt ends none, and of
  /// prompts of several lengths each has max_new_tokens of its own.
  at::Tensor ended_by(const at::Tensor& token) const;
  /// Without a temperature one argmax, where the logits are: only tokens are copied.
  at::Tensor chosen(const at::Tensor& logits);
  static void check_finite(const at::Tensor& largest);

  const PromptRows& prompts_;
  modules::GenerateOptions options_;
  at::Generator generator_;
  at::Tensor ended_;
  std::int64_t column_ = 0;  // after the prompts' begin
};

/// The loop of `generate`. `step(all, new_tokens)` returns the logits; the new tokens are first the
/// prompt, then one token per row.
template <class Step>
at::Tensor generate_with(Step&& step, const PromptRows& prompts,
                         const modules::GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  const GeneratingScope generates;
  const auto device = prompts.begin().device();
  const HalfProducts halves("generate", device, at::kBFloat16);  // of a model of 16 bits
  const bridge::WideProductsScope products(halves.in_fp32(CPUProducts::Fastest));
  const bridge::OwnCastWeights casts(device.type());
  TokenSampler sampler(prompts, options);
  at::Tensor all = prompts.begin(), new_tokens = all;
  const auto columns = prompts.columns_left() + options.max_new_tokens;
  for (std::int64_t i = 0; i < columns && !sampler.all_ended(); ++i) {
    new_tokens = sampler.next(step(all, new_tokens)).to(device);
    all = at::cat({all, new_tokens}, 1);
  }
  return all;
}

/// A step of `generate_with` that reads new tokens alone. Throws Error for a used KVCache.
template <class Step, class Cache>
auto with_cache(Step& step, Cache& cache) {
  if constexpr (std::is_same_v<Cache, modules::KVCache>)
    for (std::int64_t layer = 0; layer < cache.layers(); ++layer)
      if (cache.length(layer) > 0)
        throw Error("generate: the cache holds " + std::to_string(cache.length(layer)) +
                    " positions of a former text in layer " + std::to_string(layer) +
                    ", behind which the prompt would go on; call cache.clear() before");
  return [&](const at::Tensor&, const at::Tensor& tokens) { return step(tokens, cache); };
}

/// Each row apart: its prompt, and its new tokens up to the one that ends it.
template <class Step>
std::vector<at::Tensor> generate_rows(Step&& step, const std::vector<at::Tensor>& prompts,
                                      const modules::GenerateOptions& options) {
  const PromptRows rows(prompts);
  if (options.max_new_tokens == 0) return prompts;
  const auto all = generate_with(step, rows, options);
  const auto stops = is_stop(all, options).cpu();
  std::vector<at::Tensor> texts;
  for (std::size_t row = 0; row < prompts.size(); ++row) {
    const auto first = rows.lengths()[row];
    const auto last = std::min(all.size(1), first + options.max_new_tokens);
    const auto index = static_cast<std::int64_t>(row);
    const auto found = stops[index].slice(0, first, last).nonzero();
    const auto end = found.numel() ? first + found[0].template item<std::int64_t>() + 1 : last;
    texts.push_back(all[index].slice(0, 0, end).clone());
  }
  return texts;
}

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Continues each row of `prompt` (B, T) with tokens drawn from a model: (B, T + n) tokens, n at
/// most max_new_tokens, less if every row has reached the stop token. `step(tokens)` is called with
/// all tokens so far and returns the logits (B, T, V), or (B, V) of the last position. Costs a
/// forward over all tokens for each new token; each token is copied to the CPU. Does not call
/// eval(). Throws Error for a prompt, options or logits that do not fit.
template <class Step>
at::Tensor generate(Step&& step, const at::Tensor& prompt, const GenerateOptions& options = {}) {
  return detail::generate_with([&](const at::Tensor& all, const at::Tensor&) { return step(all); },
                               detail::PromptRows(prompt), options);
}

/// The same for prompts (T) of unequal lengths, of which each gets up to max_new_tokens: a row for
/// each prompt, without padding. No row sees padding or another's positions: the model first reads
/// as many tokens as the shortest prompt has, then one token of every row at a time, which costs a
/// forward for each further token of the longest prompt. With a temperature the tokens drawn also
/// depend on the rows beside them.
template <class Step>
std::vector<at::Tensor> generate(Step&& step, const std::vector<at::Tensor>& prompts,
                                 const GenerateOptions& options = {}) {
  return detail::generate_rows([&](const at::Tensor& all, const at::Tensor&) { return step(all); },
                               prompts, options);
}

/// The same with a cache: `step(tokens, cache)` is called with the new tokens only: first the
/// prompt, then one token per row. It must append their keys and values to the cache, an empty
/// modules::KVCache or any other type. Costs a forward over one position for each new token. Throws
/// Error also for a KVCache that holds a former text.
template <class Step, class Cache>
  requires(!std::is_same_v<std::remove_const_t<Cache>, GenerateOptions>)
at::Tensor generate(Step&& step, const at::Tensor& prompt, Cache& cache,
                    const GenerateOptions& options = {}) {
  return detail::generate_with(detail::with_cache(step, cache), detail::PromptRows(prompt),
                               options);
}

/// Prompts of unequal lengths with a cache, which needs the positions of the longest text.
template <class Step, class Cache>
  requires(!std::is_same_v<std::remove_const_t<Cache>, GenerateOptions>)
std::vector<at::Tensor> generate(Step&& step, const std::vector<at::Tensor>& prompts, Cache& cache,
                                 const GenerateOptions& options = {}) {
  return detail::generate_rows(detail::with_cache(step, cache), prompts, options);
}

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/generate.ipp>
#endif
