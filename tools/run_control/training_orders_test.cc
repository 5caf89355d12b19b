#include "tools/run_control/training_orders.h"

#include "absl/strings/str_cat.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::HasSubstr;

// Returns the error message of the second of two processes, whose data set is given; "" if none.
std::string Second(int64_t size, const std::string& fingerprint) {
  std::string heard;
  RunAsThreads(LocalJob(2), [&](const JobMember& member) {
    const auto group = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(group.ok()) << group.status();
    const bool is_first = (*group)->is_leader();
    const absl::Status status = CheckSameRun(group->get(), {{"seed", "1"}}, is_first ? 32 : size,
                                             is_first ? "abc" : fingerprint);
    if (!is_first) heard = std::string(status.message());
    EXPECT_TRUE(!is_first || status.ok()) << status;
  });
  return heard;
}

TEST(TrainingOrdersTest, ProcessesMustHaveTheSameData) {
  EXPECT_EQ(Second(32, "abc"), "");
  EXPECT_THAT(Second(31, "abc"), HasSubstr("a data set of 31 samples here, but 32 at "));
  EXPECT_THAT(Second(32, "xyz"),
              HasSubstr("a data set with the fingerprint xyz here, but with other names, captions "
                        "or sizes of files, and the fingerprint abc, at "));
}

TEST(TrainingOrdersTest, LeaderBroadcastsTheFirstStepOfTheDataOrder) {
  RunAsThreads(LocalJob(2), [](const JobMember& member) {
    const auto group = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(group.ok()) << group.status();
    const auto agreed = AgreeOnFirstStep(group->get(), (*group)->is_leader() ? 12 : 0);
    ASSERT_TRUE(agreed.ok()) << agreed.status();
    EXPECT_EQ(*agreed, 12);
  });
}

}  // namespace
}  // namespace dpipe::tools
