#include "core/train/config_match.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

FieldPolicy PolicyOf(const std::string& field) {
  if (field == "out") return FieldPolicy::kFree;
  if (field == "lr") return FieldPolicy::kRisky;
  return FieldPolicy::kFixed;
}

std::string Message(const ConfigFields& saved, const ConfigFields& now, bool allow_risky) {
  return std::string(
      CheckDifferences(CompareConfigs(saved, now, PolicyOf), allow_risky, "--allow").message());
}

TEST(ConfigMatchTest, TheSameMatches) {
  const ConfigFields fields = {{"lr", "1"}, {"model", "a"}};
  EXPECT_TRUE(CompareConfigs(fields, fields, PolicyOf).empty());
  EXPECT_EQ(Message(fields, fields, false), "");
}

TEST(ConfigMatchTest, FreeFieldsMayChange) {
  EXPECT_EQ(Message({{"out", "a"}}, {{"out", "b"}}, false), "");
}

TEST(ConfigMatchTest, RiskyOnesIfAskedFor) {
  const ConfigFields saved = {{"lr", "1"}, {"out", "a"}}, now = {{"lr", "2"}, {"out", "b"}};
  EXPECT_EQ(Message(saved, now, false),
            "with --allow alone it goes on with a change of lr: 1 -> 2");
  EXPECT_EQ(Message(saved, now, true), "");
}

TEST(ConfigMatchTest, FixedOnesNeverAndAllAreNamed) {
  const ConfigFields saved = {{"lr", "1"}, {"model", "a"}, {"old", "x"}};
  const ConfigFields now = {{"lr", "2"}, {"model", ""}, {"new", "y"}};
  EXPECT_EQ(
      Message(saved, now, true),
      "the run cannot go on with a change of model: a -> (empty); new: (none) -> y; old: x -> "
      "(none)");
  EXPECT_EQ(
      Message(saved, now, false),
      "the run cannot go on with a change of model: a -> (empty); new: (none) -> y; old: x -> "
      "(none); also, with --allow alone it goes on with a change of lr: 1 -> 2");
}

}  // namespace
}  // namespace dpipe
