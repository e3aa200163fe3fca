#pragma once
// Generates text from a language model: sampling, and the loop over tokens.
#include <algorithm>
#include <concepts>
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

namespace ikebana::detail {

/// The former way to give one token of `modules::GenerateOptions::stop_tokens`. A field that is
/// deprecated itself would warn in programs that do not name it.
struct FormerStopToken {
  FormerStopToken() = default;
  template <std::convertible_to<std::optional<std::int64_t>> Token>
  [[deprecated("use stop_tokens")]] FormerStopToken(Token token) : value(token) {}

  std::optional<std::int64_t> value = {};  ///< the token, if one was given
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Options for choosing the next token, with the names of Hugging Face's generate.
struct SamplingOptions {
  /// Divides the logits; 0 takes the most likely token, the first one if several are equally
  /// likely.
  double temperature = 1;
  /// Draws only from the k most likely tokens, and tokens as likely as the k-th; 0: from all.
  std::int64_t top_k = 0;
  /// Draws only from the most likely tokens that together have this probability; at least one.
  double top_p = 1;
};

/// Throws Error for options out of range.
void check_sampling(const SamplingOptions& o);

/// Returns the probabilities with which tokens are drawn. Takes logits (..., V), and returns (...,
/// V) in FP32. Applies the temperature, then top_k, then top_p to the rest, as Hugging Face's
/// transformers does. Throws Error for options out of range. Sources: Fan et al., Hierarchical
/// Neural Story Generation, 2018 (top_k); Holtzman et al., The Curious Case of Neural Text
/// Degeneration, 2020 (top_p).
at::Tensor probabilities(const at::Tensor& logits, const SamplingOptions& o = {});

/// The options of `generate`, for choosing tokens and for its end.
struct GenerateOptions {
  std::int64_t max_new_tokens = 20;  ///< for each row, 0 or more
  SamplingOptions sampling{};        ///< for choosing each token
  /// One more token, before `stop_tokens`; version 0.2 removes it.
  ikebana::detail::FormerStopToken stop_token{};
  /// The tokens that end a row, as `eos_token_id` does in Hugging Face's generate. A row that has
  /// ended is padded with the first of them.
  std::vector<std::int64_t> stop_tokens{};
  /// Seed of the call's own generator; LibTorch's default generators are not used.
  std::uint64_t seed = 0;
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// The prompts of all rows. If lengths differ, the first columns are the ones that every row has.
/// In later columns, a row whose prompt is longer takes the prompt's token in place of the chosen
/// one. So each row has its own tokens at their positions, and a model need not know about padding.
class PromptRows {
 public:
  explicit PromptRows(const at::Tensor& prompt);
  explicit PromptRows(const std::vector<at::Tensor>& prompts);

  /// Returns the first tokens (B, T), on the device of the prompts.
  const at::Tensor& begin() const { return begin_; }
  /// Returns the number of columns after `begin()` in which a row has a prompt.
  std::int64_t columns_left() const { return rest_.defined() ? rest_.size(1) : 0; }
  /// Returns the lengths of all prompts; empty if they are equal.
  const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// Returns a Bool tensor (B, 1): true for rows whose prompt ends before a column after `begin()`.
  at::Tensor ended_before(std::int64_t column) const { return ends_ <= column; }
  /// Returns the tokens (B, 1) of a column. They are `chosen` in rows whose prompt has ended.
  at::Tensor tokens_of(std::int64_t column, const at::Tensor& chosen) const;

 private:
  static void check(const std::vector<at::Tensor>& prompts, std::size_t row);

  at::Tensor begin_, rest_, ends_;
  std::vector<std::int64_t> lengths_;
};

/// Returns the tokens that end a row, of which the first pads it.
std::vector<std::int64_t> stops_of(const modules::GenerateOptions& o);
/// Returns a Bool tensor that is true for tokens that end a row.
at::Tensor is_stop(const at::Tensor& tokens, const std::vector<std::int64_t>& stops);

/// Chooses the next token of all rows, on the CPU, so that the same logits give the same tokens on
/// every device.
class TokenSampler {
 public:
  TokenSampler(const PromptRows& prompts, const modules::GenerateOptions& o);

  /// Returns the next tokens (B, 1), from the last position of logits (B, T, V), or from logits (B,
  /// V).
  at::Tensor next(const at::Tensor& logits);
  bool all_ended() const { return stops() && ended_.all().item<bool>(); }

 private:
  bool stops() const { return !stop_tokens_.empty(); }
  /// Returns which rows (B, 1) end with the token of this column. A token of a prompt does not end
  /// a row, and if prompts differ in length, each row gets max_new_tokens after its own prompt.
  at::Tensor ended_by(const at::Tensor& token) const;
  /// Chooses tokens. Without a temperature it is one argmax on the logits' device, so that only
  /// tokens are copied.
  at::Tensor chosen(const at::Tensor& logits);
  static void check_finite(const at::Tensor& largest);

  const PromptRows& prompts_;
  modules::GenerateOptions options_;
  std::vector<std::int64_t> stop_tokens_;
  at::Generator generator_;
  at::Tensor ended_;
  std::int64_t column_ = 0;  // index of the column, from the prompts' `begin` on
};

/// Runs the loop of `generate`. `step(all, new_tokens)` returns the logits. The new tokens are
/// first the prompt, then one token per row.
template <class Step>
at::Tensor generate_with(Step&& step, const PromptRows& prompts,
                         const modules::GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  const GeneratingScope generates;
  const auto device = prompts.begin().device();
  const HalfProducts halves("generate", device, at::kBFloat16);  // for a model of 16 bits
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

/// Makes a step of `generate_with` that reads new tokens alone. Throws Error for a used KVCache.
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

/// Returns each row by itself: its prompt, and its new tokens up to the one that ends it.
template <class Step>
std::vector<at::Tensor> generate_rows(Step&& step, const std::vector<at::Tensor>& prompts,
                                      const modules::GenerateOptions& options) {
  const PromptRows rows(prompts);
  if (options.max_new_tokens == 0) return prompts;
  const auto all = generate_with(step, rows, options);
  const auto stops = is_stop(all, stops_of(options)).cpu();
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

/// Continues prompts (T) of unequal lengths, each by up to max_new_tokens. Returns a row for each
/// prompt, without padding. No row sees padding or another's positions: the model first reads as
/// many tokens as the shortest prompt has, then one token of every row at a time, which costs a
/// forward for each further token of the longest prompt. With a temperature the tokens of a row
/// also depend on the rows beside it.
template <class Step>
std::vector<at::Tensor> generate(Step&& step, const std::vector<at::Tensor>& prompts,
                                 const GenerateOptions& options = {}) {
  return detail::generate_rows([&](const at::Tensor& all, const at::Tensor&) { return step(all); },
                               prompts, options);
}

/// Continues prompts with a cache: calls `step(tokens, cache)` with the new tokens only, first the
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

/// Continues prompts of unequal lengths with a cache, which needs the positions of the longest
/// text.
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
