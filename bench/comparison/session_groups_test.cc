#include "bench/comparison/session_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two ranks; the second has half of the memory.
SessionNeeds Needs(int64_t limit) {
  SessionNeeds needs;
  needs.sessions = {{40, 20}, {10, 5}, {}, {30, 30}, {20, 5}};
  needs.profiling = {30, 15};
  needs.limits = {limit, limit / 2};
  return needs;
}

TEST(SessionGroupsTest, AllRunTogetherIfTheyFitOrThereIsNoLimit) {
  for (const int64_t limit : {int64_t{0}, int64_t{150}}) {
    const SessionGroups found = GroupSessions(Needs(limit));
    EXPECT_TRUE(found.all_at_once) << limit;
    EXPECT_THAT(found.groups, ElementsAre(ElementsAre(0, 1, 3, 4))) << limit;
  }
}

// The second rank's 75 bytes are exactly its total need; 74 are too few.
TEST(SessionGroupsTest, WithoutRoomForProfilingSessionsEndBeforeIt) {
  const SessionGroups found = GroupSessions(Needs(148));
  EXPECT_FALSE(found.all_at_once);
  EXPECT_THAT(found.groups, ElementsAre(ElementsAre(0, 1, 3, 4)));
}

TEST(SessionGroupsTest, GroupsHaveAsManyAsFit) {
  EXPECT_THAT(GroupSessions(Needs(80)).groups, ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4)));
  EXPECT_THAT(GroupSessions(Needs(60)).groups,
              ElementsAre(ElementsAre(0, 1), ElementsAre(3), ElementsAre(4)));
}

TEST(SessionGroupsTest, SessionsThatFitNowhereAreAlone) {
  EXPECT_THAT(GroupSessions(Needs(2)).groups,
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(3), ElementsAre(4)));
  EXPECT_THAT(GroupSessions({{{}, {}}, {5}, {1}}).groups, IsEmpty());
}

}  // namespace
}  // namespace dpipe::bench
