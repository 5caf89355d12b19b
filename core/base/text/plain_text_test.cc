#include "core/base/text/plain_text.h"

#include <string>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
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

TEST(PlainTextTest, ReadsUtf16ByItsMark) {
  EXPECT_EQ(*PlainText(std::string("\xff\xfes\0t\0", 6), "a"), "st");
  EXPECT_EQ(*PlainText(std::string("\xfe\xff\0s\0t", 6), "a"), "st");
}

TEST(PlainTextTest, NonTextIsNamed) {
  for (const std::string& text :
       {std::string("s\0t\0e\0p\0", 8), std::string("\0s\0t\0e\0p", 8),
        std::string("\0\0\xfe\xff\0\0\0s", 8), std::string("\xff\xfe\0\0s\0\0\0", 8)}) {
    const absl::Status status = PlainText(text, "run.textproto").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith("run.textproto is binary, or UTF-16"));
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
