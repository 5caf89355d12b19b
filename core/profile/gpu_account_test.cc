#include "core/profile/gpu_account.h"

#include <sstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

using Kind = GpuActivity::Kind;

GpuCeilings Ceilings() {
  GpuCeilings ceilings;
  ceilings.set_flops_per_s(1e12);
  ceilings.set_bytes_per_s(1e9);
  return ceilings;
}

// Handmade: two steps with a convolution, its layout and a copy that overlaps it.
GpuRecording Recording() {
  GpuRecording recording;
  recording.operations = {{"conv2d", "64 x 64", 2, 8e6, 2e3, 9'000},
                          {"layout of weights", "", 1, 0, 4e3, 4'000}};
  recording.activities = {{Kind::kKernel, "transpose", 1, 1'000, 6'000},
                          {Kind::kKernel, "conv", 0, 10'000, 20'000},
                          {Kind::kCopy, "", -1, 15'000, 25'000},
                          {Kind::kKernel, "conv", 0, 30'000, 41'000}};
  return recording;
}

TEST(GpuAccountTest, SumsByClassOperationAndKernel) {
  const GpuAccount account = MakeGpuAccount(Recording(), Ceilings(), 2, "a GPU");
  EXPECT_EQ(account.span_ns(), 40'000);
  EXPECT_EQ(account.idle_ns(), 4'000 + 5'000);
  EXPECT_EQ(account.overlapped_ns(), 5'000);
  ASSERT_EQ(account.classes_size(), 2);
  EXPECT_EQ(account.classes(0).name(), "convolution, forward");
  EXPECT_EQ(account.classes(0).busy_ns(), 21'000);
  EXPECT_EQ(account.classes(0).count(), 2);
  EXPECT_EQ(account.classes(0).flops(), 8e6);
  EXPECT_EQ(account.classes(0).bound_ns(), 9'000);
  EXPECT_EQ(account.classes(1).name(), "copies and layouts");
  EXPECT_EQ(account.classes(1).busy_ns(), 15'000);
  EXPECT_EQ(account.classes(1).bytes(), 4e3);
  ASSERT_EQ(account.kernels_size(), 3);
  EXPECT_EQ(account.kernels(0).name(), "conv");
  EXPECT_EQ(account.kernels(0).count(), 2);
  EXPECT_EQ(account.kernels(0).detail(), "conv2d");
  EXPECT_EQ(account.kernels(1).name(), "copy");
  ASSERT_EQ(account.operations_size(), 3);
  EXPECT_EQ(account.operations(0).detail(), "64 x 64");
}

TEST(GpuAccountTest, GapsNameSurroundingOperations) {
  GpuRecording recording = Recording();
  recording.activities.push_back({Kind::kKernel, "conv", 0, 41'500, 42'000});
  recording.activities.push_back({Kind::kKernel, "conv", 0, 42'200, 43'000});
  const GpuAccount account = MakeGpuAccount(recording, Ceilings(), 2, "");
  ASSERT_EQ(account.gaps_size(), 3);
  EXPECT_EQ(account.gaps(0).before(), "") << "the copy, which ends after the overlapping kernel";
  EXPECT_EQ(account.gaps(0).after(), "conv2d");
  EXPECT_EQ(account.gaps(0).idle_ns(), 5'000);
  EXPECT_EQ(account.gaps(1).before(), "layout of weights");
  EXPECT_EQ(account.gaps(2).count(), 2);
  EXPECT_EQ(account.gaps(2).idle_ns(), 700);
  EXPECT_EQ(account.gaps(2).longest_ns(), 500);
  EXPECT_EQ(account.idle_ns(), 4'000 + 5'000 + 700);
}

// Busy and idle time, less overlaps, make up the whole span.
TEST(GpuAccountTest, ClassesIdleAndOverlapAddUpToSpan) {
  const GpuAccount account = MakeGpuAccount(Recording(), Ceilings(), 2, "");
  int64_t busy_ns = 0;
  for (const GpuWork& work : account.classes()) busy_ns += work.busy_ns();
  EXPECT_EQ(busy_ns - account.overlapped_ns() + account.idle_ns(), account.span_ns());
}

TEST(GpuAccountTest, GradientsHaveSeparateClasses) {
  EXPECT_EQ(GpuWorkClass("conv2d's weight gradient", Kind::kKernel),
            "convolution, weight gradient");
  EXPECT_EQ(GpuWorkClass("attention's input gradient", Kind::kKernel), "attention, gradient");
  EXPECT_EQ(GpuWorkClass("group_norm", Kind::kKernel), "group norm, forward");
  EXPECT_EQ(GpuWorkClass("geglu", Kind::kKernel), "element-wise");
  EXPECT_EQ(GpuWorkClass("", Kind::kKernel), "other");
  EXPECT_EQ(GpuWorkClass("", Kind::kFill), "copies and layouts");
}

TEST(GpuAccountTest, TextIsPerStepWithShortLines) {
  GpuRecording recording = Recording();
  recording.dropped = 7;
  recording.activities[1].name = std::string(500, 'k');
  const std::string text = GpuAccountText(MakeGpuAccount(recording, Ceilings(), 2, ""), 5, 5);
  EXPECT_THAT(text, HasSubstr("of 2: 0.02 ms"));
  EXPECT_THAT(text, HasSubstr("7 records are LOST"));
  EXPECT_THAT(text, HasSubstr("layout of weights"));
  for (absl::string_view line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 140) << line;
}

TEST(GpuAccountTest, EmptyRecordingIsNoError) {
  const GpuAccount account = MakeGpuAccount(GpuRecording(), Ceilings(), 1, "");
  EXPECT_EQ(account.span_ns(), 0);
  EXPECT_EQ(account.classes_size(), 0);
  EXPECT_THAT(GpuAccountText(account, 5, 5), HasSubstr("0.00 ms"));
}

}  // namespace
}  // namespace dpipe
