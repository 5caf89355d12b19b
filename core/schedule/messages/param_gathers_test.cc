#include "core/schedule/messages/param_gathers.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Returns "G0 G1 P0 D0 ...": gathers, passes and releases, by part.
std::string ListOf(const std::vector<int>& parts, bool once = false) {
  std::string text;
  const auto add = [&](const char* what, int part) {
    absl::StrAppend(&text, text.empty() ? "" : " ", what, part);
  };
  const std::vector<PassGathers> gathers = PlanGathers(parts, once);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (int pass : gathers[i].before) add("G", parts[pass]);
    add("P", parts[i]);
    if (gathers[i].release) add("D", parts[i]);
  }
  return text;
}

TEST(ParamGathersTest, ByHand) {
  EXPECT_EQ(ListOf({}), "");
  EXPECT_EQ(ListOf({7}), "G7 P7 D7");
  // Forward over three parts and back: the last part stays gathered between its two passes.
  EXPECT_EQ(ListOf({0, 1, 2, 2, 1, 0}), "G0 G1 P0 D0 G2 P1 D1 P2 G1 P2 D2 G0 P1 D1 P0 D0");
  EXPECT_EQ(ListOf({0, 1, 0, 1}), "G0 G1 P0 P1 P0 D0 P1 D1");
}

TEST(ParamGathersTest, OncePerStep) {
  EXPECT_EQ(ListOf({0, 1, 2, 2, 1, 0}, true), "G0 G1 P0 G2 P1 P2 P2 D2 P1 D1 P0 D0");
  EXPECT_EQ(ListOf({0, 1, 1, 0, 0, 1, 1, 0}, true), "G0 G1 P0 P1 P1 P0 P0 P1 P1 D1 P0 D0");
}

TEST(ParamGathersTest, EveryPassHasItsPartAndAtMostThreeAreHeld) {
  for (int i = 0; i < 300; ++i) {
    const bool once = i % 2 == 0;
    RandomStream stream(51, i, 0, RandomPurpose::kTest);
    std::vector<int> parts(stream.NextBelow(20));
    for (int& part : parts) part = static_cast<int>(stream.NextBelow(5));
    const std::vector<PassGathers> gathers = PlanGathers(parts, once);
    std::set<int> held, gathered;
    for (size_t p = 0; p < parts.size(); ++p) {
      for (int pass : gathers[p].before) {
        EXPECT_TRUE(held.insert(parts[pass]).second);
        EXPECT_TRUE(gathered.insert(parts[pass]).second || !once);
      }
      EXPECT_EQ(held.count(parts[p]), 1u);
      EXPECT_LE(held.size(), once ? 5u : 3u);
      if (gathers[p].release) held.erase(parts[p]);
    }
    EXPECT_TRUE(held.empty());
  }
}

}  // namespace
}  // namespace dpipe
