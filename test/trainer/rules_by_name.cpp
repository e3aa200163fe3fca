// Rules by name: a string is one, and one that matches nothing is an error that lists near names.
#include "test.hpp"

#include "refused.hpp"

using namespace ikebana;

namespace test::rules_by_name {

using bad::Net;
using bad::some;

template <class... Policies>
Trainer<Net, CrossEntropyLoss, Policies...> trained(Policies... policies) {
  torch::manual_seed(0);
  Trainer<Net, CrossEntropyLoss, Policies...> trainer(Net(), policies...);
  for (int s = 0; s < 2; ++s) trainer.step(some());
  return trainer;
}
template <class Policy>
void check_same(const Policy& a, const Policy& b) {
  CHECK(same(trained(a).state(), trained(b).state()));
}

TEST_CASE("rules by name: a string, and a list of strings, are what `named` makes of them") {
  const std::string block = "block.*";
  check_same(Freeze<>{.match = "block.*"}, Freeze<>{.match = named("block.*")});
  check_same(Freeze<>{.match = block}, Freeze<>{.match = named("block.*")});
  check_same(Freeze<>{.match = {"block.*", "w.bias"}},
             Freeze<>{.match = named("block.*", "w.bias")});
  auto grouped = [](ParameterRule rule) {
    return AdamW{.groups = {{.match = std::move(rule), .lr = 0.5}}};
  };
  check_same(AdamW{.groups = {{.match = "w.*", .lr = 0.5}}}, grouped(named("w.*")));
  check_same(AdamW{.groups = {Group{.match = {"w.*", "*.bias"}, .lr = 0.5}}},
             grouped(named("w.*", "*.bias")));
  check_same(AdamW{.groups = {no_decay("*.bias")}}, AdamW{.groups = {no_decay(named("*.bias"))}});
  check_same(Muon{.match = matrices_but("w.*")}, Muon{.match = matrices_but(named("w.*"))});
  check_same(Combined<AdamW, SGD>{.match = "w.*"}, Combined<AdamW, SGD>{.match = named("w.*")});
  CHECK(!same(trained(grouped("w.*")).state(), trained(grouped("block.*")).state()));
  CHECK(contains(trained(Checkpoint<Only<>>{.match = "blo?k"}).describe(), "{1 of the units}"));
}

TEST_CASE("rules by name: an empty pattern is no rule, and the same names are the same rule") {
  const char* none = nullptr;
  CHECK(!ParameterRule());
  CHECK(!ParameterRule(""));
  CHECK(!ParameterRule(none));
  CHECK(!ParameterRule(std::string()));
  CHECK(ParameterRule("a").is(named("a")));
  CHECK(!ParameterRule("a").is("b"));
  CHECK(!ParameterRule().is("b"));
  CHECK(!ParameterRule(one_dimensional).is(one_dimensional));
  CHECK(!ParameterRule(matrices_but("a")).is(matrices_but("a")));
  auto trainer = trained(Freeze<>{.match = "block.*"});
  trainer.get<Freeze<>>().match = "block.*";
  trainer.step(some());
  trainer.get<Freeze<>>().match = "w.*";
  WELL(told<BadValue>([&] { trainer.step(some()); }, {"Freeze<>: match was changed"}));
}

template <class E = BadValue, class Policy>
std::string refused(Policy policy, const Words& words) {
  Net model;
  auto wrong = told<E>([&] { Trainer{model, CrossEntropyLoss{}, policy}; }, words);
  for (const auto& p : model->parameters())
    if (!p.requires_grad()) wrong += " a parameter stayed frozen";
  return wrong;
}
TEST_CASE("rules by name: one that matches nothing is an error that lists the nearest names") {
  const char* near = "(`blok.*`; of 4 names, the nearest are `block.w.weight`, `block.w.bias`, `w.";
  WELL(refused(Freeze<>{.match = "blok.*"}, {"its rule matches no parameter", near}));
  const AdamW of_group{.groups = {{.match = "blok.*", .lr = 1.0}}};
  WELL(refused(of_group, {"optimizer: group 0 matches no parameter", near, "Correct its rule"}));
  WELL(refused(Muon{.match = "blok.*"}, {"Muon's `match` matches no parameter", near}));
  WELL(refused(Combined<AdamW, SGD>{.match = "blok.*"},
               {"Combined: no parameter is for AdamW", near, "Correct `match`"}));
  WELL(refused<BadModel>(Checkpoint<Only<>>{.match = "blok"},
                         {"none of the model's units (`blok`; of 1 names, the nearest are `block`)",
                          "correct the rule"}));
  WELL(refused(Freeze<>{.match = "weight"}, {"(`weight`; of 4 names, the nearest are `w.weight`, "
                                             "`block.w.weight`"}));
  WELL(refused(Freeze<>{.match = {"nowhere.*", "block.w.bia"}},
               {"(`nowhere.*`, `block.w.bia`;", "the nearest are `block.w.bias`, "}));
}

template <class P>
void refuses_weights() {
  const char* near = "keep_fp32 matches no parameter (`*.nrom.*`; of 4 names, the nearest are ";
  WELL(refused(P{.keep_fp32 = "*.nrom.*"}, {near, "Correct it, or leave the default"}));
  Trainer none{Net(), CrossEntropyLoss{}, P{.keep_fp32 = [](const auto&...) { return false; }}};
  Trainer one{Net(), CrossEntropyLoss{}, P{.keep_fp32 = {"*.norm.*", "w.bias"}}};
}
TEST_CASE("rules by name: names of parameters that stay in FP32, or that are no matrices of Muon") {
  refuses_weights<Precision<BF16Weights>>();
  refuses_weights<Precision<BF16True>>();
  const char* near = ": matrices_but leaves out no parameter (`blok.*`; of 4 names, the nearest";
  const Muon muon{.match = matrices_but("blok.*")};
  WELL(refused(muon, {"Muon", near, "Correct its rule, or write two_dimensional"}));
  WELL(refused(Combined<AdamW, SGD>{.match = matrices_but("blok.*")}, {"Combined", near}));
  WELL(refused(Combined<Muon, SGD>{.first = muon}, {"Muon", near}));
  // A frozen parameter counts.
  Trainer frozen{Net(), CrossEntropyLoss{}, Muon{.match = matrices_but("block.*")},
                 Freeze<>{.match = "block.*"}};
  Trainer stored{Net(), CrossEntropyLoss{}, Muon{.match = matrices_but("block.*")},
                 Freeze<>{.match = "block.*"}, Offload<CPU>{}};
}

/// A weight under two names: of a module that is registered twice, or assigned to another layer.
struct TiedImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  torch::nn::Linear head{nullptr};
  explicit TiedImpl(bool is_assigned) {
    if (is_assigned) (head = register_module("head", torch::nn::Linear(3, 3)))->weight = w->weight;
    else head = register_module("head", w);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(head, run(w, x).relu());
  }
};
TORCH_MODULE(Tied);

/// Returns, as text, which parameters of the model the policy's rule changes.
template <class Policy>
std::string changed_by(bool is_assigned, const Policy& policy, const Policy& without) {
  auto values = [&](const Policy& p) {
    torch::manual_seed(1);
    Tied model(is_assigned);
    Trainer<Tied, MSELoss, Policy> trainer{model, p};
    trainer.step({random({4, 3}), random({4, 3}, 2)});
    return values_of(model);
  };
  const auto a = values(policy), b = values(without);
  std::string names;
  for (std::size_t i = 0; i < a.size(); ++i) names += same_bits(a[i], b[i]) ? "0" : "1";
  return names;
}
TEST_CASE("rules by name: a tied weight has all of its names") {
  for (bool is_assigned : {false, true}) {
    CAPTURE(is_assigned);
    // w.weight, w.bias, head.weight, head.bias; an assigned layer's own weight is not used
    const std::string both = is_assigned ? "1000" : "1010";
    const SGD by_head{.lr = 0.1, .groups = {{.match = "head.w*", .lr = 0.5}}};
    CHECK(changed_by(is_assigned, by_head, SGD{.lr = 0.1}) == both);
    const SGD by_w{.lr = 0.1, .groups = {{.match = "w.w*", .lr = 0.5}}};
    CHECK(changed_by(is_assigned, by_w, SGD{.lr = 0.1}) == both);
    auto second = [](const std::string& name, const at::Tensor&) { return name == "w.weight"; };
    const SGD by_function{.lr = 0.1, .groups = {{.match = second, .lr = 0.5}}};
    CHECK(changed_by(is_assigned, by_function, SGD{.lr = 0.1}) == both);
    Tied model(is_assigned);
    auto of = [&](auto policy) { return Trainer{model, MSELoss{}, policy}.describe(); };
    CHECK_FALSE(ikebana::detail::holds_for(matrices_but("head.*"), "w.weight", {"head.weight"},
                                           model->w->weight));
    CHECK_NOTHROW(of(Combined<AdamW, SGD>{.match = "head.w*"}));
    CHECK_NOTHROW(of(Precision<BF16Weights>{.keep_fp32 = "head.*"}));
    const Checkpoint<Only<>> only{.match = "head"};
    CHECK(contains(of(only), "{1 of the units}"));
  }
}

TEST_CASE("rules by name: a rule that is a function lists some names") {
  auto none = [](const auto&...) { return false; };
  const char* such = "(of 4 names, such as `w.weight`, `w.bias`, `block.w.weight`)";
  WELL(refused(Freeze<>{.match = none}, {"its rule matches no parameter", such}));
  WELL(refused(AdamW{.groups = {{.match = none}}}, {"group 0 matches no parameter", such}));
  WELL(refused(Combined<AdamW, SGD>{.match = none}, {"no parameter is for AdamW", such}));
  WELL(refused<BadModel>(Checkpoint<Only<>>{.match = none}, {"(of 1 names, such as `block`)"}));
}

TEST_CASE("rules by name: a group whose parameters another group or optimizer has") {
  const AdamW twice{.groups = {{.match = "block.*", .lr = 1.0}, {.match = "*.w.bias", .lr = 2.0}}};
  WELL(refused(twice, {"group 1 matches no parameter that the groups before it leave: "
                       "`block.w.bias` is in one of them. Put the narrower rule first"}));
  const Muon of_biases{.groups = {{.match = "*.bias", .lr = 1.0}}};
  WELL(refused(of_biases, {"group 0 matches no parameter of this optimizer: another updates "
                           "`w.bias`. Write the group there"}));
}

TEST_CASE("rules by name: the number of edits after which a pattern matches") {
  using ikebana::detail::edits_to_match;
  CHECK(edits_to_match("head.weight", "head.weight") == 0);
  CHECK(edits_to_match("head.weight", "*.we?ght") == 0);
  CHECK(edits_to_match("head.weight", "haed.*") == 2);
  CHECK(edits_to_match("head.weight", "hed.*t") == 1);
  CHECK(edits_to_match("head.weight", "header.weight") == 2);
  CHECK(edits_to_match("head", "") == 4);
  CHECK(edits_to_match("", "*a*") == 1);
  CHECK(ikebana::detail::distance_of("model.head.weight", {"nothing", "head.*"}) == 1);
}

}  // namespace test::rules_by_name
