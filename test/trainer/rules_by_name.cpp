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
  // a frozen parameter counts
  Trainer frozen{Net(), CrossEntropyLoss{}, Muon{.match = matrices_but("block.*")},
                 Freeze<>{.match = "block.*"}};
  Trainer stored{Net(), CrossEntropyLoss{}, Muon{.match = matrices_but("block.*")},
                 Freeze<>{.match = "block.*"}, Offload<CPU>{}};
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
