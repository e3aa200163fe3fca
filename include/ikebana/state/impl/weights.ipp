#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/write_elements.hpp>
#include <ikebana/state/weights.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<std::pair<std::string, at::Tensor>> named_weights(
    torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : module.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

IKEBANA_INLINE UnmatchedWeights WeightLoader::load(torch::nn::Module& module,
                                                   const std::string& path) {
  const auto all = named_weights(module);
  skip(all);
  for (const auto& [name, t] : all)
    if (!skipped_.count(t.unsafeGetTensorImpl())) match(name, t);
  for (const auto& [name, t] : weights_)
    if (!found_.count(t.unsafeGetTensorImpl())) unmatched_.missing.push_back(name);
  for (const auto& [name, t] : file_)
    if (!used_.count(name) && is_of_model(name)) unmatched_.unexpected.push_back(name);
  const bool may_lack = !options_.strict || !options_.skip.patterns().empty();
  if (may_lack && matched_.empty() && problems_.empty())
    add_problem(name_in_file(weights_.empty() ? "" : weights_[0].first),
                "is not in it, nor is any other weight of the model");
  if (options_.strict) {
    for (const auto& name : unmatched_.missing) add_problem(name_in_file(name), "is missing");
    for (const auto& name : unmatched_.unexpected)
      add_problem(name, "belongs to no weight of the model");
  }
  if (!problems_.empty())
    throw BadState("load_weights: `" + path + "` does not fit the model: " + problems_ +
                   ". Nothing was changed. Set rename, strict = false or cast = true, or leave "
                   "weights as they are: skip = \"fc.*\".");
  at::NoGradGuard no_grad;
  for (const auto& [impl, pair] : matched_) write_elements(pair.first, pair.second);
  return unmatched_;
}

IKEBANA_INLINE bool WeightLoader::is_of_model(const std::string& name) {
  return !name.starts_with(Archive::reserved_prefix);
}

IKEBANA_INLINE void WeightLoader::skip(
    const std::vector<std::pair<std::string, at::Tensor>>& weights) {
  if (options_.skip.patterns().empty()) return;
  std::set<std::string> only_in_file;
  for (const auto& [name, t] : file_)
    if (is_of_model(name)) only_in_file.insert(name);
  for (const auto& [name, t] : weights) only_in_file.erase(name_in_file(name));
  skipped_ = skipped_weights("load_weights", options_.skip, weights, only_in_file);
  for (const auto& [name, t] : weights)
    if (skipped_.count(t.unsafeGetTensorImpl())) {
      used_.insert(name_in_file(name));
      unmatched_.skipped.push_back(name);
    }
  for (const auto& name : only_in_file)
    if (options_.skip.match(name)) used_.insert(name), unmatched_.skipped.push_back(name);
  if (std::ranges::all_of(weights, [&](const auto& item) {
        return skipped_.count(item.second.unsafeGetTensorImpl()) != 0;
      }))
    throw BadValue("load_weights: skip matches every weight of the model. Give fewer patterns.");
}

IKEBANA_INLINE void WeightLoader::match(const std::string& name, const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (seen_.insert(impl).second) weights_.emplace_back(name, t);
  const std::string key = name_in_file(name);
  auto entry = file_.find(key);
  if (entry == file_.end()) return;
  used_.insert(key);
  if (!options_.averaged)
    if (auto trained = file_.find(Archive::trained_prefix + key); trained != file_.end())
      entry = trained;
  found_.insert(impl);
  const at::Tensor& from = entry->second;
  const bool converts = options_.cast && from.is_floating_point() && t.is_floating_point();
  if (from.sizes() != t.sizes() || (from.scalar_type() != t.scalar_type() && !converts))
    return add_problem(key, "is " + text(from) + ", the model has " + text(t));
  if (converts && overflows(from, t.scalar_type()))
    add_problem(key,
                "has values that " + std::string(c10::toString(t.scalar_type())) + " cannot hold");
  auto [matched, is_new] = matched_.try_emplace(impl, t, from);
  if (!is_new && !same_bits(matched->second.second, from))
    add_problem(key, "differs from the tensor under the other name of the same weight");
}

IKEBANA_INLINE bool WeightLoader::same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

IKEBANA_INLINE bool WeightLoader::overflows(const at::Tensor& from, at::ScalarType type) {
  return from.scalar_type() != type &&
         from.isfinite()
             .logical_and(from.to(type).to(at::kDouble).isfinite().logical_not())
             .any()
             .item<bool>();
}

IKEBANA_INLINE std::string WeightLoader::name_in_file(const std::string& name) const {
  return options_.rename ? options_.rename(name) : name;
}

IKEBANA_INLINE std::string WeightLoader::text(const at::Tensor& t) {
  return c10::toString(t.scalar_type()) + c10::str(t.sizes());
}

IKEBANA_INLINE void WeightLoader::add_problem(const std::string& name, const std::string& what) {
  problems_ += (problems_.empty() ? "`" : "; `") + escaped(name) + "` " + what;
}

}  // namespace ikebana::detail
