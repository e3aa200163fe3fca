#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/generate.hpp>
#include <limits>

namespace ikebana::modules {

IKEBANA_INLINE void check_sampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0) || o.top_k < 0 || !(o.top_p > 0 && o.top_p <= 1))
    throw Error("sampling: temperature " + c10::str(o.temperature) + ", top_k " +
                std::to_string(o.top_k) + ", top_p " + c10::str(o.top_p) +
                "; temperature and top_k must be 0 or more, top_p above 0 and at most 1");
}

IKEBANA_INLINE at::Tensor probabilities(const at::Tensor& logits, const SamplingOptions& o) {
  check_sampling(o);
  if (!logits.defined() || logits.dim() < 1 || logits.size(-1) < 1 || logits.is_complex())
    throw Error("probabilities: logits are " +
                (logits.defined() ? c10::str(logits.sizes()) : std::string("undefined")) +
                "; they must be (..., V) real numbers, of one token or more");
  auto scores = logits.to(at::kFloat);
  if (o.temperature == 0) return at::zeros_like(scores).scatter_(-1, scores.argmax(-1, true), 1);
  // Subtracts the largest score, so that no temperature makes infinities, whose difference is NaN.
  scores = (scores.to(at::kDouble) - scores.amax(-1, true)).div(o.temperature).to(at::kFloat);
  constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();
  if (o.top_k > 0 && o.top_k < scores.size(-1)) {
    const auto kth = std::get<0>(scores.topk(o.top_k, -1)).slice(-1, -1);
    scores = scores.masked_fill(scores < kth, minus_infinity);
  }
  if (o.top_p < 1) {
    const auto [sorted, order] = scores.sort(/*stable=*/true, -1, /*descending=*/true);
    const auto p = at::softmax(sorted, -1);
    auto removed = p.cumsum(-1) - p >= o.top_p;  // more likely tokens reach top_p already
    removed.slice(-1, 0, 1).fill_(false);
    const auto by_token = at::zeros_like(removed).scatter_(-1, order, removed);
    scores = scores.masked_fill(by_token, minus_infinity);
  }
  return at::softmax(scores, -1);
}

}  // namespace ikebana::modules

namespace ikebana::detail {

inline std::string described_tokens(const at::Tensor& x) {
  return x.defined() ? c10::toString(x.scalar_type()) + c10::str(x.sizes()) : "undefined";
}

IKEBANA_INLINE PromptRows::PromptRows(const at::Tensor& prompt) : begin_(prompt) {
  if (!prompt.defined() || prompt.dim() != 2 || prompt.numel() == 0 ||
      prompt.scalar_type() != at::kLong)
    throw Error("generate: the prompt is " + described_tokens(prompt) +
                "; it must be (B, T) tokens of dtype Long, with at least one per row");
}

IKEBANA_INLINE PromptRows::PromptRows(const std::vector<at::Tensor>& prompts) {
  if (prompts.empty()) throw Error("generate: there is no prompt; give one (T) of tokens or more");
  auto shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t row = 0; row < prompts.size(); ++row) {
    check(prompts, row);
    lengths_.push_back(prompts[row].size(0));
    shortest = std::min(shortest, lengths_.back());
  }
  const auto padded = at::pad_sequence(prompts, /*batch_first=*/true);
  begin_ = padded.slice(1, 0, shortest);
  rest_ = padded.slice(1, shortest).cpu();
  ends_ = at::tensor(lengths_, at::kLong).unsqueeze(1) - shortest;
}

IKEBANA_INLINE at::Tensor PromptRows::tokens_of(std::int64_t column,
                                                const at::Tensor& chosen) const {
  return at::where(ended_before(column), chosen, rest_.slice(1, column, column + 1));
}

IKEBANA_INLINE void PromptRows::check(const std::vector<at::Tensor>& prompts, std::size_t row) {
  const auto& prompt = prompts[row];
  if (!prompt.defined() || prompt.dim() != 1 || prompt.numel() == 0 ||
      prompt.scalar_type() != at::kLong || prompt.device() != prompts[0].device())
    throw Error("generate: prompt " + std::to_string(row) + " is " + described_tokens(prompt) +
                (prompt.defined() ? " on " + prompt.device().str() : std::string()) +
                "; each must be (T) tokens of dtype Long, one or more, all on one device");
}

IKEBANA_INLINE std::vector<std::int64_t> stops_of(const modules::GenerateOptions& o) {
  std::vector<std::int64_t> stops = o.stop_tokens;
  if (const auto first = o.stop_token.value) stops.insert(stops.begin(), *first);
  return stops;
}

IKEBANA_INLINE at::Tensor is_stop(const at::Tensor& tokens,
                                  const std::vector<std::int64_t>& stops) {
  auto stopped = at::zeros_like(tokens, at::kBool);
  for (const std::int64_t stop : stops) stopped = stopped | (tokens == stop);
  return stopped;
}

IKEBANA_INLINE TokenSampler::TokenSampler(const PromptRows& prompts,
                                          const modules::GenerateOptions& o)
    : prompts_(prompts), options_(o), stop_tokens_(stops_of(o)) {
  modules::check_sampling(o.sampling);
  if (o.max_new_tokens < 0)
    throw Error("generate: max_new_tokens is " + std::to_string(o.max_new_tokens) +
                "; it must be 0 or more");
  generator_ = at::make_generator<at::CPUGeneratorImpl>(o.seed);
  ended_ = at::zeros({prompts.begin().size(0), 1}, at::kBool);
}

IKEBANA_INLINE at::Tensor TokenSampler::next(const at::Tensor& logits) {
  if (logits.dim() < 2 || logits.dim() > 3 || logits.size(0) != ended_.size(0))
    throw Error("generate: the model returned logits " + c10::str(logits.sizes()) +
                "; they must be (B, T, V) or (B, V)");
  if (logits.numel() == 0)
    throw Error("generate: the model returned logits " + c10::str(logits.sizes()) +
                "; they must have a position and a token");
  const auto last = logits.dim() == 3 ? logits.select(1, -1) : logits;
  auto token = chosen(last);
  if (stops()) token.masked_fill_(ended_, stop_tokens_[0]);
  if (column_ < prompts_.columns_left()) token = prompts_.tokens_of(column_, token);
  if (stops()) ended_ = ended_ | ended_by(token);
  ++column_;
  return token;
}

IKEBANA_INLINE at::Tensor TokenSampler::ended_by(const at::Tensor& token) const {
  const auto stopped = is_stop(token, stop_tokens_);
  if (prompts_.lengths().empty()) return stopped;
  return (stopped & prompts_.ended_before(column_)) |
         prompts_.ended_before(column_ + 1 - options_.max_new_tokens);
}

IKEBANA_INLINE at::Tensor TokenSampler::chosen(const at::Tensor& logits) {
  if (options_.sampling.temperature == 0) {
    const auto [largest, token] = logits.max(-1, true);  // NaN if a logit is NaN
    check_finite(largest.cpu());
    return token.cpu();
  }
  const auto given = logits.cpu();
  check_finite(given.amax(-1));
  const auto p = modules::probabilities(given, options_.sampling);
  return at::multinomial(p, 1, false, generator_);
}

IKEBANA_INLINE void TokenSampler::check_finite(const at::Tensor& largest) {
  if (!largest.isfinite().all().item<bool>())
    throw Error(
        "generate: the model's logits have NaN or infinity, or no token above -infinity, so that "
        "none can be chosen; look for it in the weights, or mask fewer tokens");
}

}  // namespace ikebana::detail
