#include "tools/training/disk_needs.h"

#include "core/base/bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CheckpointOptions Every(int64_t every, int keep_last, int64_t keep_every) {
  CheckpointOptions options;
  options.every = every;
  options.retention = {keep_last, keep_every};
  return options;
}

TEST(DiskNeedsTest, CountsTheCheckpointBeingWritten) {
  EXPECT_EQ(MaxCheckpoints(Every(0, 2, 0), 0, 1000, 0), 1);  // only the last one
  EXPECT_EQ(MaxCheckpoints(Every(100, 2, 0), 0, 1000, 0), 3);
  EXPECT_EQ(MaxCheckpoints(Every(100, 2, 0), 0, 200, 0), 2);     // the run has no more
  EXPECT_EQ(MaxCheckpoints(Every(100, 2, 0), 0, 201, 0), 3);     // 100, 200 and 201
  EXPECT_EQ(MaxCheckpoints(Every(100, 2, 300), 0, 1000, 0), 6);  // 300, 600, 900 are permanent
  EXPECT_EQ(MaxCheckpoints(Every(100, 1, 150), 0, 1000, 0), 5);  // lcm(100, 150) = 300: the same
}

TEST(DiskNeedsTest, CheckpointsThatAreThereCount) {
  EXPECT_EQ(MaxCheckpoints(Every(0, 2, 0), 50, 1000, 1), 2);
  EXPECT_EQ(MaxCheckpoints(Every(100, 5, 0), 100, 200, 1), 2);  // 100, and 200 to come
  EXPECT_EQ(MaxCheckpoints(Every(100, 5, 0), 150, 200, 2), 3);
  EXPECT_EQ(MaxCheckpoints(Every(100, 5, 0), 200, 200, 2), 2);
}

class RoomTest : public ::testing::Test {
 protected:
  RoomTest() {
    needs_.model_bytes = 15 * kMiB;
    needs_.num_models = 2;
    needs_.checkpoint_bytes = 40 * kMiB;
    needs_.num_checkpoints = 3;
    needs_.grid_bytes = kMiB;
    needs_.num_grids = 4;
  }
  absl::Status Check(std::optional<int64_t> free) {
    said_.clear();
    return CheckDiskRoom(needs_, {"/disk", free}, "/disk/out/model",
                         [this](const std::string& line) { said_ += line; });
  }

  DiskNeeds needs_;
  std::string said_;
};

TEST_F(RoomTest, EnoughRoomGivesNoMessage) {
  EXPECT_EQ(needs_.total_bytes(), 154 * kMiB);
  EXPECT_TRUE(Check(154 * kMiB).ok());
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(Check(std::nullopt).ok()) << "where nothing is known";
  EXPECT_EQ(said_, "");
}

TEST_F(RoomTest, TooLittleForAllIsAWarning) {
  EXPECT_TRUE(Check(153 * kMiB).ok());
  EXPECT_EQ(said_,
            "Warning:  the run takes up to 154.0 MiB: 2 models of 15.0 MiB, 3 "
            "checkpoints of 40.0 MiB, samples of 4.0 MiB, but /disk has 153.0 MiB free");
  EXPECT_TRUE(Check(30 * kMiB).ok()) << "it may get more";
}

// The first model could be saved, but not the last.
TEST_F(RoomTest, TooLittleForConcurrentModelsIsAnError) {
  for (const int64_t free : {30 * kMiB - 1, 15 * kMiB, int64_t{0}}) {
    const absl::Status status = Check(free);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("/disk/out/model: it takes 15.0 MiB, and 2 must exist at a time"),
                      HasSubstr("--save_every=0")));
    EXPECT_LE(status.message().size(), 300u);
  }
  needs_.num_models = 1;
  EXPECT_TRUE(Check(15 * kMiB).ok());
  EXPECT_EQ(Check(15 * kMiB - kMiB / 10).message(),
            "the model could not be saved in /disk/out/model: it takes 15.0 MiB, but /disk has "
            "14.9 MiB free: free some space, or choose another --out");
}

TEST_F(RoomTest, TooFewFilesIsAnError) {
  needs_.model_files = 20;
  const auto check = [this](int64_t files) {
    WritePlace place{"/disk", 200 * kMiB, files};
    return CheckDiskRoom(needs_, place, "/disk/out/model", [](const std::string&) {});
  };
  EXPECT_TRUE(check(20).ok());
  EXPECT_THAT(std::string(check(19).message()),
              HasSubstr("it has 20 files and folders, but the file system of /disk takes 19 more"));
}

TEST_F(RoomTest, CountsExistingBytesOfAResumedRun) {
  needs_.existing_bytes = 100 * kMiB;
  EXPECT_TRUE(Check(54 * kMiB).ok());
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(Check(0).ok()) << "it may give up checkpoints";
  EXPECT_THAT(said_, HasSubstr("/disk has 0 B free"));
}

}  // namespace
}  // namespace dpipe::tools
