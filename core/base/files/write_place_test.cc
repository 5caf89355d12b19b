#include "core/base/files/write_place.h"

#include <filesystem>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WritePlaceTest, FindsTheNearestExistingFolder) {
  const ScratchFolder scratch;
  const auto place = FindWritePlace(scratch.File("a/b/c.txt"));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->folder, scratch.path());
  ASSERT_TRUE(MakeFolder(scratch.File("a/b")).ok());
  EXPECT_EQ(FindWritePlace(scratch.File("a/b/c.txt"))->folder, scratch.File("a/b"));
  // An existing file is replaced through the folder that contains it.
  EXPECT_EQ(FindWritePlace(scratch.File("a/b"))->folder, scratch.File("a"));
  EXPECT_EQ(FindWritePlace(scratch.File("a/b/../x"))->folder, scratch.File("a"));
}

TEST(WritePlaceTest, ReportsTheRoomOfItsFileSystem) {
  const ScratchFolder scratch;
  const auto place = FindWritePlace(scratch.File("file"));
  ASSERT_TRUE(place.ok() && place->free_bytes.has_value());
  const auto space = std::filesystem::space(scratch.path());
  EXPECT_GE(*place->free_bytes, 0);
  EXPECT_LE(*place->free_bytes, static_cast<int64_t>(space.capacity));
}

TEST(WritePlaceTest, FileIsNotAFolder) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch.File("file"), "x").ok());
  const absl::Status status = FindWritePlace(scratch.File("file/model")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot write " + scratch.File("file/model")),
                    HasSubstr(scratch.File("file") + " is not a folder")));
}

TEST(WritePlaceTest, UnwritableFolderIsReported) {
  const absl::Status status = FindWritePlace("/proc/1/model").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write into the folder /proc/1"));
}

}  // namespace
}  // namespace dpipe
