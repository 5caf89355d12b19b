#include "core/base/text/plain_text.h"

#include <string>

#include "core/base/file.h"
#include "core/base/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PlainTextTest, DropsTheByteOrderMarkOfUtf8) {
  EXPECT_EQ(*PlainText("\xef\xbb\xbfsteps: 3", "a"), "steps: 3");
  EXPECT_EQ(*PlainText("\xef\xbb\xbf", "a"), "");
  EXPECT_EQ(*PlainText("", "a"), "");
  EXPECT_EQ(*PlainText("steps: 3\r\n", "a"), "steps: 3\r\n");
  EXPECT_EQ(*PlainText("\xc3\xa9", "a"), "\xc3\xa9");
}

TEST(PlainTextTest, NamesOtherEncodings) {
  const std::string little("s\0t\0e\0p\0", 8), big("\0s\0t\0e\0p", 8);
  for (const std::string& text : {"\xff\xfe" + little, "\xfe\xff" + big, little, big,
                                  std::string("\0\0\xfe\xff\0\0\0s", 8)}) {
    const absl::Status status = PlainText(text, "run.textproto").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith("run.textproto is UTF-16"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("save it as UTF-8"));
  }
}

TEST(PlainTextTest, ReadsFiles) {
  const ScratchFolder scratch;
  ASSERT_TRUE(WriteFileAtomically(scratch.File("x"), "\xef\xbb\xbfhello").ok());
  EXPECT_EQ(*ReadTextFile(scratch.File("x")), "hello");
  EXPECT_EQ(ReadTextFile(scratch.File("y")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace dpipe
