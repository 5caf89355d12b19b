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
      "the run cannot go on with a change of\n  model: a -> (empty)\n  new: (none) -> y\n  old: x "
      "-> (none)");
  EXPECT_EQ(
      Message(saved, now, false),
      "the run cannot go on with a change of\n  model: a -> (empty)\n  new: (none) -> y\n  old: x "
      "-> (none)\nwith --allow alone it goes on with a change of lr: 1 -> 2");
}

TEST(ConfigMatchTest, MessagesStayShort) {
  ConfigFields saved, now;
  for (const char* field : {"a", "b", "c", "d", "e", "f", "g"}) {
    saved[field] = std::string(1000, 'x');
    now[field] = "y\nz";
  }
  const std::string message = Message(saved, now, false);
  EXPECT_NE(message.find("xxx... -> y\\nz\n  b: "), std::string::npos) << message;
  EXPECT_NE(message.find("\n  and 2 more"), std::string::npos) << message;
  EXPECT_LT(message.size(), 5u * 150);
}

}  // namespace
}  // namespace dpipe
