#include "core/train/checkpoint/config_match.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

FieldPolicy PolicyOf(const std::string& field) {
  if (field == "out") return FieldPolicy::kFree;
  if (field == "lr") return FieldPolicy::kRisky;
  if (field == "data") return FieldPolicy::kData;
  return FieldPolicy::kFixed;
}

std::string Message(const ConfigFields& saved, const ConfigFields& now, bool allow_risky) {
  const std::vector<PolicyFlag> flags = {{FieldPolicy::kRisky, "--allow", allow_risky},
                                         {FieldPolicy::kData, "--new_order", false}};
  return std::string(CheckDifferences(CompareConfigs(saved, now, PolicyOf), flags).message());
}

TEST(ConfigMatchTest, EqualConfigsMatch) {
  const ConfigFields fields = {{"lr", "1"}, {"model", "a"}};
  EXPECT_TRUE(CompareConfigs(fields, fields, PolicyOf).empty());
  EXPECT_EQ(Message(fields, fields, false), "");
}

TEST(ConfigMatchTest, FreeFieldsMayChange) {
  EXPECT_EQ(Message({{"out", "a"}}, {{"out", "b"}}, false), "");
}

TEST(ConfigMatchTest, RiskyFieldsMayChangeIfAllowed) {
  const ConfigFields saved = {{"lr", "1"}, {"out", "a"}}, now = {{"lr", "2"}, {"out", "b"}};
  EXPECT_EQ(Message(saved, now, false), "pass --allow to resume with changes to lr: 1 -> 2");
  EXPECT_EQ(Message(saved, now, true), "");
}

TEST(ConfigMatchTest, ChangedFixedFieldsAreAllNamed) {
  const ConfigFields saved = {{"lr", "1"}, {"model", "a"}, {"old", "x"}};
  const ConfigFields now = {{"lr", "2"}, {"model", ""}, {"new", "y"}};
  EXPECT_EQ(
      Message(saved, now, true),
      "the run cannot resume with changes to model: a -> (empty), new: (none) -> y, old: x -> "
      "(none)");
  EXPECT_EQ(
      Message(saved, now, false),
      "the run cannot resume with changes to model: a -> (empty), new: (none) -> y, old: x -> "
      "(none); pass --allow to resume with changes to lr: 1 -> 2");
}

TEST(ConfigMatchTest, EachPolicyHasItsFlag) {
  const ConfigFields saved = {{"lr", "1"}, {"data", "a"}}, now = {{"lr", "2"}, {"data", "b"}};
  EXPECT_EQ(Message(saved, now, true), "pass --new_order to resume with changes to data: a -> b");
  EXPECT_EQ(Message(saved, now, false),
            "pass --allow to resume with changes to lr: 1 -> 2; pass --new_order to resume with "
            "changes to data: a -> b");
}

TEST(ConfigMatchTest, ListsAreShortened) {
  ConfigFields saved, now;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) saved[name] = "1", now[name] = "2";
  now["a"] = std::string(1000, 'x');
  const std::string message = Message(saved, now, true);
  EXPECT_NE(message.find("e: 1 -> 2 and 2 more"), std::string::npos) << message;
  EXPECT_LT(message.size(), 300u);
}

}  // namespace
}  // namespace dpipe
