#include "data/quarantine_log.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class QuarantineLogTest : public testing::Test {
 protected:
  std::unique_ptr<QuarantineLog> Open() { return QuarantineLog::Open(path_).value(); }
  const ScratchFolder scratch_;
  const std::string path_ = scratch_.File("quarantine.jsonl");
};

TEST_F(QuarantineLogTest, RemembersAppendedEntries) {
  {
    const auto log = Open();
    EXPECT_TRUE(log->known().empty());
    ASSERT_TRUE(log->Append({"a \"b\"\n.png", "corrupt"}).ok());
    ASSERT_TRUE(Open()->Append({"c.png", "cut off"}).ok());
    ASSERT_TRUE(log->Append({"c.png", "again"}).ok());
    ASSERT_TRUE(log->Append({"\xff.png", "not UTF-8"}).ok());
  }
  const auto log = Open();
  ASSERT_EQ(log->known().size(), 3u);
  EXPECT_EQ(log->known()[0].path, "a \"b\"\n.png");
  EXPECT_EQ(log->known()[1].reason, "cut off");
}

TEST_F(QuarantineLogTest, UnfinishedLinesAreDropped) {
  ASSERT_TRUE(Open()->Append({"a.png", "corrupt"}).ok());
  const std::string whole = ReadFile(path_).value();
  for (size_t size = 1; size <= whole.size(); ++size) {
    ASSERT_TRUE(WriteFileAtomically(path_, whole + whole.substr(0, size)).ok());
    EXPECT_EQ(Open()->known().size(), 1u);
    ASSERT_TRUE(Open()->Append({"b.png", "corrupt"}).ok());
    EXPECT_EQ(Open()->known().size(), 2u) << size;
    ASSERT_TRUE(WriteFileAtomically(path_, whole.substr(0, size)).ok());
    EXPECT_EQ(Open()->known().size(), size == whole.size() ? 1u : 0u);
  }
}

TEST_F(QuarantineLogTest, ReadingChangesNothing) {
  const std::string elsewhere = scratch_.File("folder/quarantine.jsonl");
  const auto none = QuarantineLog::Open(elsewhere, QuarantineLog::Use::kRead);
  ASSERT_TRUE(none.ok() && (*none)->Append({"a.png", "corrupt"}).ok());
  EXPECT_TRUE(QuarantineLog::Open(elsewhere, QuarantineLog::Use::kRead).value()->known().empty());
  EXPECT_FALSE(std::filesystem::exists(scratch_.File("folder")));
  ASSERT_TRUE(Open()->Append({"a.png", "corrupt"}).ok());
  const std::string unfinished = ReadFile(path_).value() + "{\"path\":";
  ASSERT_TRUE(WriteFileAtomically(path_, unfinished).ok());
  const auto log = QuarantineLog::Open(path_, QuarantineLog::Use::kRead);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ((*log)->known().size(), 1u);
  ASSERT_TRUE((*log)->Append({"b.png", "corrupt"}).ok());
  EXPECT_EQ(ReadFile(path_).value(), unfinished);
}

TEST_F(QuarantineLogTest, OtherFilesAreLeftAlone) {
  for (const char* content : {"my notes\n", "my notes", "{\"path\": \"x\"}\n", "[]\n"}) {
    ASSERT_TRUE(WriteFileAtomically(path_, content).ok());
    EXPECT_THAT(std::string(QuarantineLog::Open(path_).status().message()),
                HasSubstr("quarantine.jsonl line 1: expected {\"path\""));
    EXPECT_EQ(ReadFile(path_).value(), content);
  }
  EXPECT_FALSE(QuarantineLog::Open(testing::TempDir()).ok());
}

}  // namespace
}  // namespace dpipe
