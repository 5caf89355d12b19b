#include "tools/sampling/prompts.h"

#include "core/base/files/file.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

TEST(PromptsTest, SplitsAndRepeats) {
  const auto prompts = CollectPrompts(" a red circle | |a blue star", "", 2);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(*prompts, std::vector<std::string>(
                          {"a red circle", "a red circle", "a blue star", "a blue star"}));
}

TEST(PromptsTest, LinesOfAFileComeAfterTheFlag) {
  const std::string path = testing::TempDir() + "/prompts.txt";
  ASSERT_TRUE(WriteFileAtomically(path,
                                  "\xef\xbb\xbf"
                                  "a green cross\r\n\n  a | b\n")
                  .ok());
  const auto prompts = CollectPrompts("first", path, 1);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(*prompts, std::vector<std::string>({"first", "a green cross", "a | b"}));
}

TEST(PromptsTest, AFileMayBeUtf16) {
  const std::string path = testing::TempDir() + "/utf16.txt";
  std::string bytes = "\xff\xfe";
  for (const char c : std::string("a cat\r\na dog\r\n")) bytes += {c, '\0'};
  ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  EXPECT_EQ(CollectPrompts("", path, 1).value(), std::vector<std::string>({"a cat", "a dog"}));
}

TEST(PromptsTest, NothingToDrawIsAnError) {
  EXPECT_NE(CollectPrompts(" | ", "", 1).status().message().find("no prompt"), std::string::npos);
  EXPECT_NE(CollectPrompts("a", "", 0).status().message().find("--count=0"), std::string::npos);
  EXPECT_EQ(CollectPrompts("a", testing::TempDir() + "/missing.txt", 1).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PromptsTest, TooManyImagesAreRefused) {
  EXPECT_EQ(CollectPrompts("a|b", "", 600'000).status().message(),
            "--count=600000 for each of 2 prompts exceeds the maximum of 1000000 images");
}

}  // namespace
}  // namespace dpipe::tools
