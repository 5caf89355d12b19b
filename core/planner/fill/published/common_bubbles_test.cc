#include "core/planner/fill/published/common_bubbles.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Texts(const std::vector<std::vector<IdleInterval>>& by_device) {
  std::vector<std::string> texts;
  for (const CommonBubble& bubble : CommonBubbles(by_device)) {
    std::string& text = texts.emplace_back(absl::StrCat(bubble.start_ns, "-", bubble.end_ns, ":"));
    for (size_t i = 0; i < bubble.devices.size(); ++i) {
      absl::StrAppend(&text, " ", bubble.devices[i], " before ", bubble.before[i]);
    }
  }
  return texts;
}

TEST(CommonBubblesTest, EndWhereTheIdleDevicesChange) {
  // The way into three stages: device 0 never idles, 1 and 2 wait for their first passes.
  EXPECT_THAT(Texts({{}, {{0, 10, 1}, {30, 40, 5}}, {{0, 20, 1}, {30, 35, 7}}}),
              ElementsAre("0-10: 1 before 1 2 before 1", "10-20: 2 before 1",
                          "30-35: 1 before 5 2 before 7", "35-40: 1 before 5"));
}

TEST(CommonBubblesTest, EmptyIntervalsAddNothing) {
  EXPECT_THAT(Texts({{{5, 5, 3}}, {{0, 10, 1}}}),
              ElementsAre("0-5: 1 before 1", "5-10: 1 before 1"));
  EXPECT_THAT(Texts({{{5, 5, 3}}, {}}), ElementsAre());
}

}  // namespace
}  // namespace dpipe
