#include "core/base/files/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

std::string TestPath(const std::string& name) { return ::testing::TempDir() + "/" + name; }

TEST(FileTest, WritesAndReadsBack) {
  const std::string path = TestPath("file_test_content");
  ASSERT_TRUE(WriteFileAtomically(path, "first").ok());
  ASSERT_TRUE(WriteFileAtomically(path, absl::string_view("a\0b", 3)).ok());
  const auto content = ReadFile(path);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(*content, std::string("a\0b", 3));
}

TEST(FileTest, PartsFollowEachOther) {
  const std::string path = TestPath("file_test_parts");
  ASSERT_TRUE(WritePartsAtomically(path, {"ab", "", "c"}).ok());
  EXPECT_EQ(ReadFile(path).value(), "abc");
}

TEST(FileTest, CopiesTheTargetOfALink) {
  std::string content;  // larger than several copy buffers
  for (int i = 0; i < 700'000; ++i)
    content += static_cast<char>(i * 7), content += '\0', content += 'x';
  const std::string from = TestPath("file_test_from"), link = TestPath("file_test_link");
  const std::string to = TestPath("file_test_copy");
  ASSERT_TRUE(WriteFileAtomically(from, content).ok());
  std::filesystem::remove(link);
  std::filesystem::create_symlink(from, link);
  ASSERT_TRUE(WriteFileAtomically(to, "what was there before").ok());
  ASSERT_TRUE(CopyFileAtomically(link, to).ok());
  EXPECT_FALSE(std::filesystem::is_symlink(to));
  EXPECT_TRUE(ReadFile(to).value() == content);
  // It is a separate file.
  ASSERT_TRUE(WriteFileAtomically(to, "new").ok());
  EXPECT_TRUE(ReadFile(from).value() == content);
  EXPECT_THAT(std::string(CopyFileAtomically("/no/such/file", to).message()),
              HasSubstr("/no/such/file"));
  EXPECT_EQ(ReadFile(to).value(), "new");
}

// The system reports a size of 0 for files that it cannot copy by itself.
TEST(FileTest, CopiesFilesOfUnknownSize) {
  const std::string to = TestPath("file_test_of_the_system");
  ASSERT_TRUE(CopyFileAtomically("/proc/self/cmdline", to).ok());
  EXPECT_THAT(ReadFile(to).value(), HasSubstr("file_test"));
}

TEST(FileTest, MissingFileIsNamed) {
  const auto content = ReadFile("/no/such/file");
  EXPECT_EQ(content.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(content.status().message()), HasSubstr("/no/such/file"));
}

TEST(FileTest, LimitIsKept) {
  const std::string path = TestPath("file_test_limit");
  ASSERT_TRUE(WriteFileAtomically(path, "12345").ok());
  EXPECT_TRUE(ReadFile(path, 5).ok());
  EXPECT_EQ(ReadFile(path, 4).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileTest, FailedWriteLeavesNothing) {
  EXPECT_FALSE(WriteFileAtomically("/no/such/folder/x", "y").ok());
  const std::string folder = TestPath("file_test_folder");
  ASSERT_TRUE(MakeFolder(folder).ok());
  EXPECT_FALSE(WriteFileAtomically(folder, "a folder cannot be replaced").ok());
  for (const auto& entry : std::filesystem::directory_iterator(::testing::TempDir())) {
    EXPECT_EQ(entry.path().string().find(folder + ".tmp"), std::string::npos) << entry.path();
  }
}

// As if an attacker had planted it who knew, or guessed, the temporary name.
TEST(FileTest, LinkWithItsNameIsReplacedNotFollowed) {
  const ScratchFolder folder;
  const std::string victim = folder.File("victim"), path = folder.File("out");
  ASSERT_TRUE(WriteFileAtomically(victim, "precious").ok());
  std::filesystem::create_symlink(victim, path);
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(ReadFile(victim).value(), "precious");
  EXPECT_EQ(ReadFile(path).value(), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

TEST(FileTest, FilesFlushedLaterCanBeRead) {
  const std::string path = TestPath("file_test_flushed_later");
  ASSERT_TRUE(WriteFileAtomically(path, "content", Flush::kLater).ok());
  EXPECT_EQ(ReadFile(path).value(), "content");
}

TEST(FileTest, FoldersAndSpecialFilesAreRefused) {
  const ScratchFolder folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), fifo, std::string("/dev/zero")}) {
    EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(ReadFileOrPipe(path).status().code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(CopyFileAtomically(path, folder.File("copy")).code(),
              absl::StatusCode::kInvalidArgument)
        << path;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.File("copy")));
}

TEST(FileTest, PipesAreReadToTheirEndOrLimit) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string path = absl::StrCat("/proc/self/fd/", ends[0]);
  EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(write(ends[1], "12345", 5), 5);
  EXPECT_THAT(std::string(ReadFileOrPipe(path, 4).status().message()),
              HasSubstr("more than the maximum of 4 bytes"));
  ASSERT_EQ(write(ends[1], "67", 2), 2);
  close(ends[1]);
  EXPECT_EQ(ReadFileOrPipe(path, 2).value(), "67");
  close(ends[0]);
}

// Their size is 0 until they are read.
TEST(FileTest, KernelFilesAreReadToTheirEnd) {
  EXPECT_THAT(ReadFile("/proc/self/cmdline").value(), HasSubstr("file_test"));
}

}  // namespace
}  // namespace dpipe
